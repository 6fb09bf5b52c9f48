//! The settings of the door for HTTP: what their values may be, and how they go together.
//!
//! Owns: the kinds of values that only they have; that nobody listens for calls without
//! either tokens or the word that there are to be none. Must not: listen, or read a token.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::error::ConfigError;
use super::given::{Given, Wrong};
use super::types::Config;

/// Where nothing else is said.
const HOST_UNSET: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PORT_UNSET: u16 = 3001;

/// What a name in Host may be, for messages.
pub(super) const HOST: &str = "a list of hosts' names or addresses, without ports";
/// What an origin is, for messages.
pub(super) const ORIGIN: &str =
    "a list of origins, each named whole, as https://app.example.com or http://localhost:5173";
const ADDRESS: &str = "an address and a port, as 127.0.0.1:3001 or [::1]:3001";
const BYTES: &str = "a number of bytes, more than 0, as 1048576, 512kb or 50mb";
/// As long as anything may take.
const MOST_MILLIS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Where HTTP is when `http.listen` does not say: nowhere, unless something about it is said.
pub(super) fn usual(config: &Config) -> Option<SocketAddr> {
    let http = &config.http;
    let said = http.token_file.is_some()
        || config.insecure_no_auth
        || http.host.is_some()
        || http.port.is_some();
    let address = (http.host.unwrap_or(HOST_UNSET), http.port.unwrap_or(PORT_UNSET));
    said.then(|| SocketAddr::from(address))
}

/// Whether they go together.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    match (config.http.operator_listen, &config.http.operator_token_file) {
        (Some(at), Some(_)) if !at.ip().is_loopback() => {
            return Err(ConfigError::OperatorElsewhere { at });
        }
        (Some(_), Some(_)) | (None, None) => {}
        _ => return Err(ConfigError::HalfAnOperator),
    }
    let Some(at) = config.http.listen else { return Ok(()) };
    match (&config.http.token_file, config.insecure_no_auth) {
        (Some(_), true) => Err(ConfigError::TokensForNothing),
        (None, false) => Err(ConfigError::NobodyByHttp { at }),
        (None, true) if !at.ip().is_loopback() => Err(ConfigError::OpenToOthers { at }),
        _ => Ok(()),
    }
}

pub(super) fn address(given: &Given<'_>) -> Result<SocketAddr, Wrong> {
    given.text().and_then(|text| text.parse().ok()).ok_or(Wrong::from(ADDRESS))
}

pub(super) fn host(given: &Given<'_>) -> Result<IpAddr, Wrong> {
    let text = given.text().map(|text| if text == "localhost" { "127.0.0.1" } else { text });
    text.and_then(|text| text.parse().ok()).ok_or("an IP address, as 127.0.0.1".into())
}

pub(super) fn port(given: &Given<'_>) -> Result<u16, Wrong> {
    let port = given.integer().and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port > 0).ok_or("a port, 1 to 65535".into())
}

/// A name in Host, in small letters; an address of version 6 without its brackets.
pub(super) fn name(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_address = text.parse::<IpAddr>().is_ok();
    (is_address || !text.is_empty() && text.chars().all(plain)).then(|| text.to_ascii_lowercase())
}

/// As browsers write it: no path, no final slash, no star.
pub(super) fn origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let is_one = matches!(scheme, "http" | "https") && !authority.is_empty();
    (is_one && authority.chars().all(plain)).then(|| text.to_ascii_lowercase())
}

pub(super) fn bytes(given: &Given<'_>) -> Result<usize, Wrong> {
    let read = || {
        if let Some(bytes) = given.integer() {
            return usize::try_from(bytes).ok();
        }
        let text = given.text()?.trim().to_ascii_lowercase();
        let units = [("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30), ("b", 1)];
        let (number, unit) =
            units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)))?;
        number.trim().parse::<usize>().ok()?.checked_mul(unit)
    };
    read().filter(|bytes| *bytes > 0).ok_or(BYTES.into())
}

pub(super) fn millis(given: &Given<'_>, least: u64) -> Result<Duration, Wrong> {
    let millis = given.integer().filter(|millis| (least..=MOST_MILLIS).contains(millis));
    millis.map(Duration::from_millis).ok_or_else(|| {
        Wrong::from(format!("milliseconds, at least {least} and at most 7 days").as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let read = |text: &str| bytes(&Given::Texts(vec![text.to_owned()])).ok();
        assert_eq!(read("50mb"), Some(50 << 20));
        assert_eq!(read("50MB"), Some(50 << 20));
        assert_eq!(read("1 kb"), Some(1024));
        assert_eq!(read("17b"), Some(17));
        assert_eq!(read("17"), Some(17));
        for wrong in ["", "0", "0mb", "mb", "-1", "1.5mb", "1tb", "50 megabytes", "99999999999gb"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_named_whole() {
        assert_eq!(origin("https://App.example.com").as_deref(), Some("https://app.example.com"));
        assert!(origin("http://[::1]:5173").is_some());
        for wrong in
            ["*", "null", "https://", "https://a/", "ftp://a", "a.example.com", "https://*.a"]
        {
            assert_eq!(origin(wrong), None, "{wrong}");
        }
    }
}
