//! Asking a host for the commits between two that it has.
//!
//! One request of protocol 2: it wants the newer ones and has the old one, and no
//! trees or files. What comes back is proof, not opinion: commits name themselves.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::commands::Push;
use super::fetch;
use super::line::{self, Line};
use super::name::{Format, Id};
use super::pack::{Commits, Reading, Walk};
use crate::body;
use crate::site::{Onward, Site, To};

/// So many commits are asked for at once.
const MOST: usize = 64;

/// So long it may take.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether one of these leads to the old one, as far as the host tells: `false` also
/// where it does not answer, or has too much to say.
pub(super) async fn leads(
    site: &Site,
    repository: &str,
    from: &[Id],
    old: &Id,
    push: &Push,
) -> bool {
    let format = push.format().unwrap_or(Format::Sha1);
    if from.is_empty() || from.len() > MOST {
        return false;
    }
    // Hosts that know no filters refuse one; the commits come first all the same.
    for filter in [true, false] {
        let asked = between(site, repository, from, old, format, filter);
        if let Ok(Some(commits)) = tokio::time::timeout(LONGEST, asked).await {
            let commits = commits.cut(&push.shallow);
            return from.iter().any(|one| commits.walk(one, old) == Walk::Leads);
        }
    }
    false
}

fn question(from: &[Id], old: &Id, format: Format, filter: bool) -> Vec<u8> {
    let mut out = Vec::new();
    line::push(&mut out, b"command=fetch");
    line::push(&mut out, format!("object-format={}", format.as_str()).as_bytes());
    line::delimiter(&mut out);
    line::push(&mut out, b"no-progress");
    if filter {
        line::push(&mut out, b"filter tree:0");
    }
    for id in from {
        line::push(&mut out, &[b"want ", id.digits()].concat());
    }
    line::push(&mut out, &[b"have ", old.digits()].concat());
    line::push(&mut out, b"done");
    line::flush(&mut out);
    out
}

async fn between(
    site: &Site,
    repository: &str,
    from: &[Id],
    old: &Id,
    format: Format,
    filter: bool,
) -> Option<Commits> {
    let kind = HeaderValue::from_static("application/x-git-upload-pack-request");
    let version = HeaderName::from_static("git-protocol");
    let agent = HeaderValue::from_static("git/tool-gate");
    let onward = Onward {
        method: Method::POST,
        to: To::Gate(format!("{repository}/git-upload-pack")),
        headers: HeaderMap::new(),
        extra: vec![
            (CONTENT_TYPE, kind),
            (version, HeaderValue::from_static("version=2")),
            (hyper::header::USER_AGENT, agent),
        ],
        body: body::full(question(from, old, format, filter)),
        keeps: &fetch::KEEPS,
    };
    let answer = site.send(onward).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    let mut body = answer.into_body();
    let (mut lines, mut packed) = (Vec::new(), Vec::new());
    let mut commits = Commits::new(format);
    let mut begun = false;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        lines.extend_from_slice(&data);
        let used = unpack(&lines, &mut packed, &mut begun)?;
        lines.drain(..used);
        if commits.read(&packed) == Reading::Over {
            break;
        }
    }
    begun.then_some(commits)
}

/// Takes the pack out of its lines, and says how many bytes those were; `None` where
/// the host says something else.
fn unpack(lines: &[u8], packed: &mut Vec<u8>, begun: &mut bool) -> Option<usize> {
    let mut at = 0;
    while let Some((line, length)) = line::next(lines.get(at..)?).ok()? {
        match line {
            Line::Data(data) if *begun => match data.split_first()? {
                (1, data) => packed.extend_from_slice(data),
                (2, _) => {}
                _ => return None,
            },
            Line::Data(data) if data.trim_ascii_end() == b"packfile" => *begun = true,
            Line::Data(data) if data.starts_with(b"ERR ") => return None,
            Line::Data(_) | Line::Flush | Line::Delimiter | Line::End => {}
        }
        at += length;
    }
    Some(at)
}
