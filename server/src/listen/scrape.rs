//! The figures over HTTP, on an address of this machine: `GET /metrics`, and
//! nothing else.
//!
//! Owns: who may ask (whatever is on this machine, by one of its loopback
//! names), how many at once and how long each may take. Must not: be in the way
//! of a call: it has a few connections, and gives up on whoever is slow.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::broker::Broker;
use crate::metrics;

/// Connections at once; one more takes the place of the oldest.
const CONNECTIONS: usize = 16;
/// Descriptors that all this may need.
pub(crate) const DESCRIPTORS: u64 = CONNECTIONS as u64 + 2;
/// From a connection to its whole request.
const REQUEST: Duration = Duration::from_secs(5);
/// From a connection to its end.
const WHOLE: Duration = Duration::from_secs(15);
/// Bytes of a request.
const HEADERS: usize = 8 * 1024;
/// Lines of a request's head.
const HEADER_LINES: usize = 48;
/// How long nothing is taken after an error.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening address.
#[derive(Debug)]
pub(crate) struct Scrape(TcpListener);

impl Scrape {
    /// Listens there.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Scrape> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Scrape)
    }

    /// Where, with the port that the kernel chose where none was given.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers for ever.
    pub(crate) async fn serve(self, broker: Arc<Broker>) {
        let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
        loop {
            let stream = match self.0.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "cannot take a connection for the figures");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            open.retain(|connection| !connection.is_finished());
            if open.len() >= CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
            open.push_back(tokio::spawn(answer_one(stream, Arc::clone(&broker))));
        }
    }
}

async fn answer_one(stream: TcpStream, broker: Arc<Broker>) {
    let service = service_fn(|request| {
        let response = respond(&request, || broker.figures());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST)
        .keep_alive(false)
        .max_buf_size(HEADERS)
        .max_headers(HEADER_LINES)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(WHOLE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a request for the figures"),
        Err(_) => debug!("a request for the figures took too long"),
    }
}

fn respond<B>(request: &Request<B>, figures: impl FnOnce() -> String) -> Response<Full<Bytes>> {
    if !is_local(request) {
        let message = "ask by localhost or a loopback address\n";
        return plain(StatusCode::FORBIDDEN, message);
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "only /metrics is here\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let mut response = Response::new(Full::new(Bytes::from(figures())));
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Whether it was asked for by a loopback name: else a page in a browser on this
/// machine could read it under a name of its own that leads here (DNS rebinding).
fn is_local<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let asked = request.uri().authority();
    host.is_some_and(|host| loopback(&host)) && asked.is_none_or(loopback)
}

fn loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let plain = !authority.as_str().contains('@');
    let named = host.eq_ignore_ascii_case("localhost");
    plain && (named || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &str, uri: &str, hosts: &[&str]) -> u16 {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let request = request.body(()).unwrap();
        respond(&request, || "x 1\n".to_owned()).status().as_u16()
    }

    #[test]
    fn only_loopback_names_are_answered() {
        for host in
            ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:9464"]
        {
            assert_eq!(status("GET", "/metrics", &[host]), 200, "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "example.com:9464",
            "127.0.0.1.example.com",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::ffff:127.0.0.1]",
            "localhost@example.com",
            "x@localhost",
            "2130706433",
        ] {
            assert_eq!(status("GET", "/metrics", &[host]), 403, "{host}");
        }
        assert_eq!(status("GET", "/metrics", &[]), 403);
        assert_eq!(status("GET", "/metrics", &["localhost", "localhost"]), 403);
        assert_eq!(status("GET", "http://example.com/metrics", &["localhost"]), 403);
        assert_eq!(status("GET", "http://localhost/metrics", &["localhost"]), 200);
    }

    #[test]
    fn only_get_and_head_of_one_path_are_answered() {
        let at = |method, path| status(method, path, &["localhost"]);
        assert_eq!(at("HEAD", "/metrics"), 200);
        assert_eq!(at("GET", "/metrics?x=1"), 200);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
            assert_eq!(at(method, "/metrics"), 405, "{method}");
        }
        for path in ["/", "/metrics/", "/Metrics", "//metrics", "/metrics/../metrics"] {
            assert_eq!(at("GET", path), 404, "{path}");
        }
    }
}
