//! Who listens where no tool may call: TCP, UDP, Unix sockets with and without a
//! name. Whatever comes is kept.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// All of them.
#[derive(Debug)]
pub struct Recorder {
    pub port: u16,
    pub unix: PathBuf,
    pub datagram: PathBuf,
    pub hidden: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Its sockets with names lie in `directory`, open to all.
    pub fn start(directory: &Path) -> Recorder {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let udp = UdpSocket::bind(("127.0.0.1", port)).expect("a port");
        let (unix, datagram) = (directory.join("sock"), directory.join("datagrams"));
        let stream = UnixListener::bind(&unix).expect("a socket");
        let datagrams = UnixDatagram::bind(&datagram).expect("a socket");
        for path in [&unix, &datagram] {
            crate::setup::mode(path, 0o777);
        }
        let hidden = format!("tool-broker-attacks-{}-{port}", std::process::id());
        let address = SocketAddr::from_abstract_name(&hidden).expect("a name");
        let nameless = UnixListener::bind_addr(&address).expect("a socket");
        keep(&heard, "tcp", move || tcp.accept().ok().map(|(stream, _)| said(stream)));
        keep(&heard, "unix", move || stream.accept().ok().map(|(stream, _)| said(stream)));
        keep(&heard, "abstract", move || nameless.accept().ok().map(|(stream, _)| said(stream)));
        keep(&heard, "udp", move || {
            let mut bytes = [0; 2048];
            let (length, _) = udp.recv_from(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        });
        keep(&heard, "datagram", move || {
            let mut bytes = [0; 2048];
            let length = datagrams.recv(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        });
        Recorder { port, unix, datagram, hidden, heard }
    }

    /// What came since this was last asked.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("not poisoned"))
    }
}

fn keep(
    heard: &Arc<Mutex<Vec<String>>>,
    what: &'static str,
    mut next: impl FnMut() -> Option<String> + Send + 'static,
) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        while let Some(said) = next() {
            heard.lock().expect("not poisoned").push(format!("{what}: {said}"));
        }
    });
}

/// That somebody came is enough; what they say helps to find out who.
fn said(mut stream: impl Read + Timed) -> String {
    stream.at_most(Duration::from_millis(200));
    let mut bytes = [0; 512];
    let length = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

trait Timed {
    fn at_most(&self, time: Duration);
}

impl Timed for std::net::TcpStream {
    fn at_most(&self, time: Duration) {
        let _ = self.set_read_timeout(Some(time));
    }
}

impl Timed for std::os::unix::net::UnixStream {
    fn at_most(&self, time: Duration) {
        let _ = self.set_read_timeout(Some(time));
    }
}
