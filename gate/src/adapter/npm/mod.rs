//! Registries of npm.
//!
//! Owns: deciding on a request, and what passes of its headers and answers. npm asks
//! for `http://HOST/…` through the proxy, so all of it is in plain sight; reads get
//! the credential too, for packages that are private. What a request means is in
//! `path`. A token that an answer would hold does not pass.

mod path;

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response};
use serde_json::json;
use tool_policy::definition::gate::Gate;
use tool_policy::facts::{Text, Value};
use url::Url;

use self::path::Meaning;
use crate::adapter::follow::{self, Again};
use crate::body::{self, Body};
use crate::hygiene::headers;
use crate::judge::{Part, Rest};
use crate::missing;
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site};

const KEEPS: Keeps = Keeps {
    request: &[
        "accept",
        "accept-encoding",
        "cache-control",
        "content-encoding",
        "content-type",
        "if-modified-since",
        "if-none-match",
        "npm-auth-type",
        "npm-command",
        "npm-in-ci",
        "npm-otp",
        "npm-scope",
        "range",
        "user-agent",
    ],
    answer: &[
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-range",
        "content-type",
        "date",
        "etag",
        "last-modified",
        "npm-notice",
        "retry-after",
        "vary",
    ],
    redirects: Redirects::Adapter,
};

const AGAIN: Again = Again { scheme: "http", has_host };

fn has_host(gate: &Gate, host: &str) -> bool {
    gate.hosts.iter().any(|wanted| wanted.matches(host.as_bytes()))
}

/// Whether the gate has this path: its own list, and what registries have at all.
pub(crate) fn has_path(gate: &Gate, path: &str) -> bool {
    let plain = path::plain(path);
    gate.paths.is_empty() || gate.paths.iter().any(|wanted| wanted.matches(plain.as_bytes()))
}

/// Decides on a request and sends it on.
pub(crate) async fn handle(site: &Site, mut asked: Asked) -> Result<Response<Body>, Refusal> {
    let gate = site.gate();
    asked.path = beneath(gate, asked.path);
    let method = asked.method.as_str();
    if !gate.methods.is_empty() && !gate.methods.iter().any(|wanted| wanted == method) {
        return Err(Refusal::Unlisted(format!("{method} is not a method of this gate")));
    }
    if !has_path(gate, &asked.path) {
        return Err(Refusal::Unlisted(format!("{} is not a path of this gate", asked.path)));
    }
    let meaning = path::read(&asked.method, &asked.path)?;
    let mut part = part(site, &asked, &meaning);
    let (mut rest, mut body_shown) = (Rest::Nothing, false);
    if part.changes {
        if asked.headers.contains_key(CONTENT_ENCODING) {
            return Err(Refusal::Malformed("what is packed cannot be shown: send it as it is"));
        }
        let asks = site.asks(meaning.subcommand(), &part);
        let shown = body::show(asked.body, &asked.headers, asks).await?;
        // An archive in it is nothing to be read: package, versions and digest say what it is.
        (asked.body, rest) = (shown.body, shown.rest.named());
        part.shown.push_str(&shown.text);
        body_shown = !shown.text.is_empty();
    }
    let beside = headers::told(&asked.headers, KEEPS.request, body_shown);
    site.allow_with(meaning.subcommand(), part, beside, rest, body::HELD).await?;
    let (method, headers) = (asked.method.clone(), asked.headers.clone());
    let answer = site.send(Onward::of(asked, &KEEPS)).await?;
    // A link of something that changes is not followed, and a token not handed on.
    let answer = follow::answer(site, AGAIN, &method, &headers, answer).await?;
    let missing = missing::of(&answer).filter(|_| method != Method::HEAD);
    Ok(match missing {
        Some(missing) => {
            let said = json!({ "error": missing.to_string() });
            missing::instead(answer, said.to_string(), "application/json")
        }
        None => answer,
    })
}

/// The path, without what `upstream` has before each: registries put it into the
/// addresses of archives.
fn beneath(gate: &Gate, path: String) -> String {
    let upstream = gate.upstream.as_deref().and_then(|url| Url::parse(url).ok());
    let base = upstream.map(|url| url.path().trim_end_matches('/').to_owned()).unwrap_or_default();
    match path.strip_prefix(&base) {
        Some(rest) if !base.is_empty() && rest.starts_with('/') => rest.to_owned(),
        _ => path,
    }
}

fn part(site: &Site, asked: &Asked, meaning: &Meaning) -> Part {
    let texts = |words: Vec<String>| {
        Value::Texts(words.into_iter().map(|word| Text::new(word.into_bytes())).collect())
    };
    let registry = format!("https://{}", site.authority());
    let method = &asked.method;
    let shown = match (&meaning.change, &meaning.package) {
        // Which version or tag of it is in the path.
        (Some(change), Some(package)) => {
            format!("{change} {package} at {registry} ({method} {})", asked.target())
        }
        _ => format!("{method} {} at {registry}", asked.target()),
    };
    let facts = [
        ("registry", texts(vec![registry])),
        ("publish", Value::Flag(meaning.change.is_some())),
        ("package", texts(meaning.package.iter().cloned().collect())),
        ("change", texts(meaning.change.iter().map(|&change| change.to_owned()).collect())),
    ];
    Part {
        changes: meaning.change.is_some(),
        facts: facts.into_iter().collect(),
        shown: shown.escape_debug().to_string(),
    }
}

/// A refusal as npm shows it: `npm error 403 403 Forbidden - PUT … - WHY`.
pub(crate) fn refuse(refusal: &Refusal) -> Response<Body> {
    let mut response = refusal.response();
    let message = json!({ "error": refusal.line() });
    *response.body_mut() = body::full(message.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Whether a method reads.
fn reads(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}
