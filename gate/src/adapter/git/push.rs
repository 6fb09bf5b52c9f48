//! A push: read to where its pack begins, decided on ref by ref, and only then sent.
//!
//! One ref that is refused refuses the push: nothing of it reaches the host, and git
//! is told by the host's own kind of report.

use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response};
use sha2::Digest as _;
use tokio::task::yield_now;
use tool_policy::facts::Facts;
use tool_policy::facts::git::wire::{self, Change};

use super::commands::{Command, Push, Reader, Wrong};
use super::feed::Feed;
use super::place::{Place, folds};
use super::{ancestry, fetch, report, told};
use crate::body::{self, Body};
use crate::hygiene::headers;
use crate::judge::{Answer, Part};
use crate::refusal::Refusal;
use crate::site::{Asked, Site};

/// Takes a push.
pub(super) async fn push(
    site: &Site,
    asked: Asked,
    place: &Place,
) -> Result<Response<Body>, Refusal> {
    let coded = asked.headers.contains_key(CONTENT_ENCODING);
    if asked.method != Method::POST || coded || !fetch::is_kind(&asked, "git-receive-pack") {
        return Err(Refusal::Malformed("a push has to come as git sends it, not compressed"));
    }
    fetch::permitted(site, place).await?;
    let Asked { method, path, query, headers, body } = asked;
    let place_of_push = site.grant().git.push().await;
    let mut feed = Feed::new(body);
    let wrong = |wrong: Wrong| Refusal::Unlisted(wrong.to_string());
    let (push, start) = head(&mut feed).await?;
    if !push.has_pack() {
        // Where nothing can follow, nothing may: also after the question `0000`.
        if feed.bytes().len() > start || feed.more().await? {
            return Err(wrong(Wrong::Behind));
        }
        if push.commands.is_empty() {
            return Ok(result(Vec::new()));
        }
    }
    let repository = path.strip_suffix("/git-receive-pack").unwrap_or(&path);
    let forced = ancestry::forced(site, repository, &push, &mut feed, start).await?;
    let whole = Whole::of(site, place, &push);
    let mut parts = Vec::with_capacity(push.commands.len());
    for (number, (command, forced)) in push.commands.iter().zip(&forced).enumerate() {
        if number % AT_ONCE == 0 {
            yield_now().await;
        }
        parts.push(part(&whole, command, *forced));
    }
    let beside = beside(&headers, place, &push);
    // What was read, and the names of refs, in the parts and their facts.
    let held = start.saturating_mul(4).saturating_add(feed.bytes().len());
    let answers = site.judge(&["push"], parts, beside, held).await;
    if answers.iter().any(|answer| *answer != Answer::Allowed) && !crate::weaken::is("gate-refs") {
        feed.drain().await?;
        return refused(&push, &answers);
    }
    drop(place_of_push);
    let onward = Asked { method, path, query, headers, body: feed.into_body() };
    fetch::answered(site, onward).await
}

async fn head(feed: &mut Feed) -> Result<(Push, usize), Refusal> {
    let wrong = |wrong: Wrong| Refusal::Unlisted(wrong.to_string());
    let mut reader = Reader::default();
    loop {
        if let Some(start) = reader.read(feed.bytes()).map_err(wrong)? {
            let push = reader.into_push();
            while push.has_pack() && feed.bytes().len() < start + PACK.len() {
                if !feed.more().await? {
                    return Err(wrong(Wrong::Ended));
                }
            }
            let follows = feed.bytes().get(start..).unwrap_or_default();
            if push.has_pack() && !follows.starts_with(PACK) {
                return Err(wrong(Wrong::Behind));
            }
            return Ok((push, start));
        }
        if !feed.more().await? {
            return Err(wrong(Wrong::Ended));
        }
    }
}

/// What a pack begins with.
const PACK: &[u8] = b"PACK";

/// So many refs are looked at before others have their turn.
pub(super) const AT_ONCE: usize = 100;

/// What all refs of a push have in common.
struct Whole {
    facts: Facts,
    /// At the end of each line: where, and with which options.
    shown: String,
}

impl Whole {
    fn of(site: &Site, place: &Place, push: &Push) -> Whole {
        let host = site.authority();
        let mut shown = format!(" in {host}/{}", short(place.repository.as_bytes(), REPOSITORY));
        for option in push.options.iter().take(OPTIONS) {
            shown.push_str(&format!(", with the option {}", short(option, OPTION)));
        }
        if let Some(more) = push.options.len().checked_sub(OPTIONS + 1) {
            // An answer is for those too.
            let all = sha2::Sha256::digest(push.options.join(&b'\n'));
            let all: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
            shown.push_str(&format!(" and {} more, SHA-256 of all {all}", more + 1));
        }
        let folded = folds(&site.host);
        let facts = wire::pushed(&host, &place.repository, folded, &push.options);
        Whole { facts, shown }
    }
}

fn part(push: &Whole, command: &Command, forced: bool) -> Part {
    let delete = command.new.is_zero();
    let name = short(&command.name, NAME);
    let (old, new) = (command.old.text(), command.new.text());
    let mut shown = match (command.old.is_zero(), delete, forced) {
        (_, true, _) => format!("delete {name} (was {old})"),
        (true, ..) => format!("make {name} at {new}"),
        (_, _, true) => format!("force {name} from {old} to {new}: commits may be lost"),
        (_, _, false) => format!("move {name} on from {old} to {new}"),
    };
    shown.push_str(&push.shown);
    let facts = wire::changed(&push.facts, Change { name: &command.name, delete, force: forced });
    Part { changes: true, facts, shown }
}

/// So many words of `push -o` are in the line of each ref.
const OPTIONS: usize = 3;
/// As much of one.
const OPTION: usize = 100;
/// As much of a ref's name.
const NAME: usize = 200;
/// As much of a repository's.
const REPOSITORY: usize = 150;

/// What the lines of the refs leave out, whole, and headers that change what is meant.
fn beside(headers: &HeaderMap, place: &Place, push: &Push) -> Vec<String> {
    let mut lines = headers::told(headers, fetch::KEEPS.request, true);
    let options = &push.options;
    if options.len() > OPTIONS || options.iter().any(|option| is_cut(option, OPTION)) {
        let each = options.iter().map(|option| option.escape_ascii());
        lines.extend(each.map(|option| format!("with the option {option}")));
    }
    let repository = place.repository.as_bytes();
    if is_cut(repository, REPOSITORY) {
        lines.push(format!("the repository's name in full is {}", repository.escape_ascii()));
    }
    let names = push.commands.iter().map(|command| &command.name);
    let long = names.filter(|name| is_cut(name, NAME));
    lines.extend(long.map(|name| format!("a ref's name in full is {}", name.escape_ascii())));
    lines
}

fn is_cut(bytes: &[u8], longest: usize) -> bool {
    bytes.escape_ascii().count() > longest
}

/// The caller's words, escaped; of long ones the beginning and the end.
fn short(bytes: &[u8], longest: usize) -> String {
    let text = bytes.escape_ascii().to_string();
    let half = longest / 2;
    let cut = text.len().checked_sub(half).filter(|_| text.len() > longest);
    match cut.and_then(|at| text.get(..half).zip(text.get(at..))) {
        Some((first, last)) => format!("{first}…{last}"),
        None => text,
    }
}

fn refused(push: &Push, answers: &[Answer]) -> Result<Response<Body>, Refusal> {
    let (mut reasons, mut said) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Answer::Allowed => {
                reasons.push("not pushed: another ref of this push was refused".to_owned());
            }
            Answer::Refused { rule, reason, instead } => {
                reasons.push(told(reason));
                let mut lines = vec![told(reason)];
                lines.extend((!rule.is_empty()).then(|| format!("rule: {rule}")));
                lines.extend(instead.as_ref().map(|instead| format!("instead: {instead}")));
                if !said.ends_with(&lines) {
                    said.extend(lines);
                }
            }
        }
    }
    match report::refused(push, &reasons, &said) {
        Some(report) => Ok(result(report)),
        None => Err(Refusal::Ruled {
            rule: String::new(),
            reason: reasons.into_iter().next().unwrap_or_default(),
            instead: None,
        }),
    }
}

/// An answer as the host would give it.
fn result(bytes: Vec<u8>) -> Response<Body> {
    let mut answer = Response::new(body::full(bytes));
    let headers = answer.headers_mut();
    let kind = HeaderValue::from_static("application/x-git-receive-pack-result");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}
