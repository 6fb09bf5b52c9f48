//! Connections: how many at once, how long each may take with a request's head, and how
//! they end.
//!
//! Owns: the loop that takes them. Where all places are taken, the connection goes that has
//! asked nothing for longest, once that is a second; where all ask something, the next waits
//! until one of them has its answer. Must not: read a request; hyper does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::guard::Remote;
use super::seat::{self, Asks, Seats};
use crate::listen::unread::Held;
use crate::os::descriptors::give_up_after;

/// From a connection, or from the answer before, to a whole head.
const HEAD: Duration = Duration::from_secs(15);
/// Bytes of a head, and of what is read ahead of a body.
const HEADERS: usize = 32 * 1024;
/// Lines of a head.
const HEADER_LINES: usize = 64;
/// How long somebody may take nothing of what was sent, in milliseconds.
pub(super) const DEAF: u32 = 30_000;
/// How long nothing is taken after an error.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers until it is told to stop, and then until all is answered, or `cut` says that
/// enough is enough. `most` connections at once; `deaf`: as [`DEAF`].
pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    (most, deaf): (usize, u32),
    stop: CancellationToken,
    cut: CancellationToken,
) {
    let mut seats = Seats::new(most);
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "cannot take a connection for HTTP");
                sleep(PAUSE).await;
                continue;
            }
        };
        let seat = tokio::select! {
            seat = seats.take() => seat,
            () = stop.cancelled() => break,
        };
        let Some(seat) = seat else { break };
        // Who takes nothing of an answer does not keep its place.
        give_up_after(&stream, deaf).ok();
        let (asks, leave) = (Arc::clone(&seat.asks), seat.leave.clone());
        let told = (stop.clone(), leave);
        let answered = answer(stream, Remote(remote.ip()), app.clone(), asks, told);
        let cut = cut.clone();
        open.spawn(async move {
            let _seat = seat;
            tokio::select! {
                () = answered => {}
                () = cut.cancelled() => {}
            }
        });
    }
    drop(listener);
    open.close();
    open.wait().await;
}

async fn answer(
    stream: TcpStream,
    remote: Remote,
    app: Router,
    asks: Arc<Asks>,
    (stop, leave): (CancellationToken, CancellationToken),
) {
    // An answer is written at once, whole.
    stream.set_nodelay(true).ok();
    let app = TowerToHyperService::new(app);
    let asked = Arc::clone(&asks);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(remote);
        let (ask, answers) = (asked.begin(), Held::default());
        request.extensions_mut().insert(answers.clone());
        let called = app.call(request);
        async move {
            let response = called.await?;
            Ok::<_, Infallible>(response.map(|body| seat::until_written(body, (ask, answers))))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEADERS)
        .max_headers(HEADER_LINES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = leave.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                // Half a head asks nothing; what came just before the word is answered.
                () = asks.idle() => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection by HTTP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use bytes::Bytes;
    use http_body_util::channel::Channel;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// The only place is taken by one who asked for a stream without an end and reads
    /// nothing of it: the kernel ends its connection, and the next is answered.
    #[test]
    fn who_takes_nothing_of_an_answer_loses_its_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let endless = || async {
                let (mut to, body) = Channel::<Bytes, Infallible>::new(1);
                let some = Bytes::from_static(&[b'x'; 16 * 1024]);
                tokio::spawn(async move { while to.send_data(some.clone()).await.is_ok() {} });
                Body::new(body)
            };
            let app = Router::new().route("/endless", get(endless)).route("/", get(|| async {}));
            let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
            let served = tokio::spawn(serve(listener, app, (1, 300), stop.clone(), cut.clone()));
            let ask = async |path: &str| {
                let mut stream = TcpStream::connect(at).await.unwrap();
                let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream
            };
            let mut deaf = ask("/endless").await;
            let mut first = [0];
            deaf.read_exact(&mut first).await.unwrap();
            let mut next = ask("/").await;
            let mut answer = String::new();
            next.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            drop(deaf);
            stop.cancel();
            served.await.unwrap();
        });
    }
}
