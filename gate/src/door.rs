//! How a call finds its gate.
//!
//! The gate is an HTTP proxy on a TCP address of the call's own, and for gh a Unix
//! socket. Whoever asks names the call's secret: without a network namespace other
//! processes of the machine reach the address too.

pub mod environment;
mod files;

use std::fmt;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, PROXY_AUTHORIZATION};

/// Where a call's gate is.
#[derive(Clone)]
pub struct Door {
    /// Of the proxy.
    pub address: SocketAddr,
    /// The password of the proxy's user `call`; printable, of this call alone.
    pub secret: String,
}

impl fmt::Debug for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Door").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Door {
    /// The proxy's URL, with user and password.
    pub fn url(&self) -> String {
        format!("http://call:{}@{}", self.secret, self.address)
    }
}

pub use self::environment::environment;
pub use self::files::gh;

/// A new call's secret; `None` where the machine has no random bytes to give.
pub fn new_secret() -> Option<String> {
    let mut bytes = [0; 32];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Whether the request names the call's secret, in a time that does not depend on how
/// much of it is right.
pub(crate) fn is_ours(headers: &HeaderMap, secret: &str) -> bool {
    let mut values = headers.get_all(PROXY_AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let wanted = format!("Basic {}", STANDARD.encode(format!("call:{secret}")));
    let (value, wanted) = (value.as_bytes(), wanted.as_bytes());
    let differs = value.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b));
    value.len() == wanted.len() && std::hint::black_box(differs) == 0
}
