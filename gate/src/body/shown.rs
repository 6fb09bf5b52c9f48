//! What an approver sees of a body, and by what the whole of it is known again.
//!
//! Owns: how much of one is read before somebody is asked about it. An answer is for
//! all of a body or, where it is longer than anybody holds, for the one request that
//! has it. Must not: hold more than that.

use http_body_util::BodyExt;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use sha2::{Digest as _, Sha256};

use super::{Body, chain};
use crate::judge::Rest;
use crate::refusal::Refusal;

/// As many bytes of a body as are shown.
const SHOWN: usize = 400;
/// As many are held while somebody is asked.
pub(crate) const HELD: usize = 64 * 1024;
/// As much of what a body is called, where nobody is asked. Else all of it is in the line:
/// the answer is for that, and whoever cuts the line counts it.
const NAMED: usize = 100;
/// What gh and npm send, which goes without saying.
const USUAL: [&[u8]; 2] = [b"application/json", b"application/json; charset=utf-8"];

/// A body that was looked at.
pub(crate) struct Shown {
    /// To stand at the end of a line for people; what is no plain text is escaped.
    pub(crate) text: String,
    /// What that leaves out.
    pub(crate) rest: Rest,
    /// All of it, to be sent on.
    pub(crate) body: Body,
}

/// Looks at how a body begins; where a person is asked about it, at the whole.
pub(crate) async fn show(
    mut body: Body,
    headers: &HeaderMap,
    asks: bool,
) -> Result<Shown, Refusal> {
    let asks = asks && !crate::weaken::is("gate-body");
    let most = if asks { HELD } else { SHOWN };
    let mut first = Vec::new();
    let mut whole = hyper::body::Body::is_end_stream(&body);
    while !whole && first.len() <= most {
        match body.frame().await {
            Some(frame) => {
                let frame = frame.map_err(|_broken| Refusal::Malformed("the body breaks off"))?;
                first.extend_from_slice(frame.data_ref().map_or(b"".as_slice(), |data| data));
            }
            None => whole = true,
        }
    }
    let shown = first.get(..SHOWN).unwrap_or(&first);
    let hidden = first.len() - shown.len();
    let (size, rest) = match (asks, whole) {
        (false, _) => (String::new(), Rest::Nothing),
        (true, true) if hidden == 0 => (String::new(), Rest::Nothing),
        (true, true) => {
            let digest = Sha256::digest(&first);
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            (format!("{} bytes, SHA-256 {digest}", first.len()), Rest::Digest(hidden))
        }
        (true, false) => (format!("more than {HELD} bytes"), Rest::Unread(hidden)),
    };
    let mut text = String::new();
    if !first.is_empty() {
        let colon = if size.is_empty() { "" } else { ": " };
        let cut = if hidden > 0 { "…" } else { "" };
        text = format!("{}, with {size}{colon}{}{cut}", named(headers, asks), shown.escape_ascii());
    }
    Ok(Shown { text, rest, body: chain(first.into(), body) })
}

/// What the headers say that it is, where that is unusual: the same bytes may mean
/// another thing.
fn named(headers: &HeaderMap, asks: bool) -> String {
    let said = [CONTENT_TYPE, CONTENT_ENCODING];
    let said = said.iter().flat_map(|name| headers.get_all(name)).map(|value| value.as_bytes());
    let said: Vec<&[u8]> = said.collect();
    match said.as_slice() {
        [] => ", of no type".to_owned(),
        [one] if USUAL.contains(one) => String::new(),
        more => {
            let more = more.join(&b", "[..]);
            match more.get(..NAMED).filter(|_| !asks && more.len() > NAMED) {
                Some(first) => format!(", of type {}…", first.escape_ascii()),
                None => format!(", of type {}", more.escape_ascii()),
            }
        }
    }
}
