//! Which headers of a message go on: those that a list names, and no others.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tool_policy::definition::gate::{Gate, NO_HEADERS, Scheme};

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

/// What changes nothing but how the answer looks, or who else has a copy of it. All
/// others that go on are in the question where somebody is asked.
const HARMLESS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "pragma",
    "user-agent",
    "x-request-id",
];

/// Which are good for one time: that one is there is told, and not which.
const SECRET: [&str; 1] = ["npm-otp"];

/// What is said of a body; where that is shown, they are shown with it.
const OF_THE_BODY: [&str; 2] = ["content-encoding", "content-type"];

/// How git's messages look; they are read here whichever it is.
const VERSIONS: [&[u8]; 3] = [b"version=0", b"version=1", b"version=2"];

/// Lines for people, one for each header that goes on by this list and may change what
/// the request means.
pub(crate) fn told(came: &HeaderMap, keeps: &[&str], body_shown: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in &pick(came, keeps) {
        let name = name.as_str();
        let said = body_shown && OF_THE_BODY.contains(&name);
        let version = name == "git-protocol" && VERSIONS.contains(&value.as_bytes());
        if said || version || HARMLESS.contains(&name) {
            continue;
        }
        lines.push(match SECRET.contains(&name) {
            true => format!("with the header {name}, whose value is not shown"),
            false => format!("with the header {name}: {}", value.as_bytes().escape_ascii()),
        });
    }
    lines
}

/// The headers of a message that the gate's own list names; never who somebody is.
pub(crate) fn more(came: &HeaderMap, gate: &Gate) -> HeaderMap {
    let own = match &gate.scheme {
        Scheme::Header(name) => name.to_ascii_lowercase(),
        _ => String::new(),
    };
    let mut picked = HeaderMap::new();
    for (name, value) in came {
        let text = name.as_str();
        let never = NO_HEADERS.contains(&text);
        let listed = gate.headers.iter().any(|wanted| wanted.matches(text.as_bytes()));
        if listed && !never && text != own {
            picked.append(name.clone(), value.clone());
        }
    }
    picked
}

/// Adds those that are not there.
pub(crate) fn join(to: &mut HeaderMap, more: HeaderMap) {
    let new: Vec<_> = more.keys().filter(|name| !to.contains_key(*name)).cloned().collect();
    for name in new {
        for value in more.get_all(&name) {
            to.append(name.clone(), value.clone());
        }
    }
}

/// Lines for people about those.
pub(crate) fn told_of(more: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("with the header {name}: {}", value.as_bytes().escape_ascii())
    };
    more.iter().map(line).collect()
}

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
