//! Who listens where no tool may call: TCP, UDP, Unix sockets with and without a
//! name. Whatever comes is kept.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::eventually_some;

/// All of them.
#[derive(Debug)]
pub struct Recorder {
    pub port: u16,
    pub unix: PathBuf,
    pub datagram: PathBuf,
    pub hidden: String,
    heard: Arc<Mutex<Vec<String>>>,
    takes: AtomicUsize,
}

impl Recorder {
    /// Its sockets with names lie in `directory`, open to all.
    pub fn start(directory: &Path) -> Recorder {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (tcp, udp) = ports();
        let port = tcp.local_addr().expect("an address").port();
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
        Recorder { port, unix, datagram, hidden, heard, takes: AtomicUsize::new(0) }
    }

    /// What came since this was last asked, all of it: each of them takes one after the other,
    /// and what is said here is the last.
    pub fn take(&self) -> Vec<String> {
        let mark = format!("the last one, {}", self.takes.fetch_add(1, Ordering::Relaxed));
        let said = self.say(mark.as_bytes());
        let all = eventually_some("all that came is kept", || {
            let mut heard = self.heard.lock().expect("not poisoned");
            let marks = heard.iter().filter(|said| said.ends_with(&mark)).count();
            (marks == said).then(|| std::mem::take(&mut *heard))
        });
        all.into_iter().filter(|said| !said.ends_with(&mark)).collect()
    }

    /// To how many: an attacker may have taken a socket's name away.
    fn say(&self, mark: &[u8]) -> usize {
        let here = ("127.0.0.1", self.port);
        let hidden = SocketAddr::from_abstract_name(&self.hidden);
        let hidden = hidden.and_then(|hidden| UnixStream::connect_addr(&hidden));
        let said = [
            TcpStream::connect(here).and_then(|mut stream| stream.write_all(mark)),
            UnixStream::connect(&self.unix).and_then(|mut stream| stream.write_all(mark)),
            hidden.and_then(|mut stream| stream.write_all(mark)),
            UdpSocket::bind("127.0.0.1:0").and_then(|udp| udp.send_to(mark, here)).map(drop),
            UnixDatagram::unbound().and_then(|it| it.send_to(mark, &self.datagram)).map(drop),
        ];
        said.iter().filter(|said| said.is_ok()).count()
    }
}

/// The same port twice: what is free for the one may be somebody's for the other.
fn ports() -> (TcpListener, UdpSocket) {
    eventually_some("a port that is free twice", || {
        let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
        let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
        Some((tcp, udp))
    })
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
    stream.at_most(Duration::from_secs(2));
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
