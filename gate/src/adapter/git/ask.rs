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
use crate::body::{self, Body};
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
    told(answer.into_body(), format).await
}

/// So much more of a pack is waited for before it is looked at again: an object that is
/// not whole is unpacked anew, and a host may cut its answer into any pieces.
const PIECE: usize = 64 << 10;

/// The commits in an answer, read as far as they go.
async fn told(mut body: Body, format: Format) -> Option<Commits> {
    let (mut lines, mut packed) = (Vec::new(), Vec::new());
    let mut commits = Commits::new(format);
    let (mut begun, mut enough) = (false, PIECE);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        lines.extend_from_slice(&data);
        let used = unpack(&lines, &mut packed, &mut begun)?;
        lines.drain(..used);
        if packed.len() >= enough {
            enough = packed.len() + PIECE;
            if commits.read(&packed) == Reading::Over {
                return Some(commits);
            }
        }
    }
    commits.read(&packed);
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use hyper::body::Frame;
    use sha1::Digest as _;

    use super::*;
    use crate::body::BodyError;

    struct Pieces(VecDeque<Bytes>);

    impl hyper::body::Body for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// An answer of one commit of this length, in pieces that are as long.
    fn answer(length: usize, pieces: usize) -> (Body, Id, Id) {
        let old = Id::parse(&[b'1'; 40], Format::Sha1).unwrap();
        let mut content = format!("tree {0}\nparent {1}\n", "a".repeat(40), "1".repeat(40));
        let mut state = 1_u64;
        while content.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            content.push_str(&format!("{state:016x}"));
        }
        let mut named = sha1::Sha1::new_with_prefix(format!("commit {}\0", content.len()));
        named.update(&content);
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
        let (mut size, mut byte) = (content.len() >> 4, 0x10 | (content.len() & 15));
        while size > 0 {
            pack.push(u8::try_from(byte | 0x80).unwrap());
            (size, byte) = (size >> 7, size & 0x7f);
        }
        pack.push(u8::try_from(byte).unwrap());
        let mut zip = flate2::write::ZlibEncoder::new(pack, flate2::Compression::fast());
        zip.write_all(content.as_bytes()).unwrap();
        let mut out = Vec::new();
        line::push(&mut out, b"packfile\n");
        for piece in zip.finish().unwrap().chunks(pieces) {
            line::band(&mut out, 2, b"counting");
            line::band(&mut out, 1, piece);
        }
        line::flush(&mut out);
        let cut = out.chunks(pieces).map(Bytes::copy_from_slice).collect();
        (Pieces(cut).boxed_unsync(), Id::of(&named.finalize()), old)
    }

    #[tokio::test]
    async fn an_answer_in_small_pieces_is_not_unpacked_for_each() {
        for (length, pieces) in [(200, 7), (1000, 60_000), (900_000, 40)] {
            let (body, new, old) = answer(length, pieces);
            let begun = Instant::now();
            let commits = told(body, Format::Sha1).await.unwrap();
            assert_eq!(commits.walk(&new, &old), Walk::Leads, "{length}");
            // No figure: unpacked for each piece it does not end in any useful time.
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
        }
    }
}
