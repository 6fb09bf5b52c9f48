//! Endpoints of REST: what a path means.
//!
//! Owns: the repository and the part of it that a path is about, and which requests
//! are not taken whatever rules say. A server may decode a name before it looks, so
//! rules hear the decoded one. Must not: read bodies.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use tool_policy::facts::Value;

use super::graphql::texts;
use crate::refusal::Refusal;
use crate::site::Asked;

/// What of the API a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// Methods and paths.
    Rest,
    /// The one endpoint of GraphQL.
    Graphql,
    /// Files of releases, which have a host of their own.
    Uploads,
}

impl Surface {
    /// The site whose API is at this host.
    pub(super) fn site(host: &str) -> Option<&str> {
        let site = host.strip_prefix("api.").or_else(|| host.strip_prefix("uploads."))?;
        (site == "github.com" || site.ends_with(".ghe.com")).then_some(site)
    }
}

/// Where a request goes, in GitHub's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) surface: Surface,
    /// As gh names it: github.com, or the enterprise's.
    pub(super) host: String,
    /// Without the slash at its beginning, decoded.
    pub(super) path: String,
    /// What follows `repos/OWNER/NAME/` or `repositories/NUMBER/`; `.` is the repository itself; else the path.
    pub(super) resource: String,
    /// The repository; nothing where it is about none.
    pub(super) repository: Value,
}

impl Endpoint {
    /// Reads a path that is normal but for `%2f` in names.
    pub(super) fn read(host: &str, path: &str) -> Result<Endpoint, Refusal> {
        let named = path.strip_prefix('/').unwrap_or(path);
        let named = named.strip_suffix('/').unwrap_or(named);
        let (surface, site, named) = match Surface::site(host) {
            Some(site) if host.starts_with("uploads.") => (Surface::Uploads, site, named),
            Some(site) => (Surface::Rest, site, named),
            None => {
                let inner = named.strip_prefix("api/").unwrap_or_default();
                let (first, rest) = inner.split_once('/').unwrap_or((inner, ""));
                match first {
                    "v3" => (Surface::Rest, host, rest),
                    "graphql" => (Surface::Rest, host, inner),
                    "uploads" => (Surface::Uploads, host, rest),
                    _ => return Err(Refusal::Unlisted(format!("{path} is not a path of the API"))),
                }
            }
        };
        let segments: Vec<&str> = named.split('/').collect();
        let first = segments.first().copied().unwrap_or_default();
        if !first.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-')) {
            return Err(Refusal::Malformed("endpoints begin with a word in small letters"));
        }
        // What an encoded slash divides is a name only where the path has ended
        // being structure.
        let names = if first == "repos" { 3 } else { 2 };
        if segments.iter().take(names).any(|segment| segment.contains("%2f")) {
            return Err(Refusal::Malformed("an encoded slash is where no name may have one"));
        }
        let surface = match (surface, first) {
            (Surface::Rest, "graphql") if segments.len() == 1 => Surface::Graphql,
            (_, "graphql" | "api") => {
                return Err(Refusal::Unlisted(format!("{path} is not a path of the API")));
            }
            (surface, _) => surface,
        };
        let decoded: Option<Vec<String>> = segments.iter().map(|segment| decode(segment)).collect();
        let decoded = decoded.ok_or(Refusal::Malformed("its path is not text"))?;
        let resource = match decoded.as_slice() {
            [first, _, _] if first == "repos" => ".".to_owned(),
            [first, _, _, rest @ ..] if first == "repos" => rest.join("/"),
            // The same by its number.
            [first, _] if first == "repositories" => ".".to_owned(),
            [first, _, rest @ ..] if first == "repositories" => rest.join("/"),
            _ => decoded.join("/"),
        };
        let repository = repository(&decoded);
        let path = decoded.join("/");
        Ok(Endpoint { surface, host: site.to_owned(), path, resource, repository })
    }

    /// What does not pass, whoever allows it.
    pub(super) fn check(&self, asked: &Asked) -> Result<(), Refusal> {
        let segments: Vec<&str> = self.path.split('/').collect();
        if self.surface == Surface::Uploads
            && !(asked.method == Method::POST
                && matches!(segments.as_slice(), ["repos", _, _, "releases", _, "assets"]))
        {
            return Err(Refusal::Unlisted("only files of releases are uploaded here".to_owned()));
        }
        let form = asked.headers.get_all(CONTENT_TYPE).iter().any(|kind| {
            let kind = kind.as_bytes().to_ascii_lowercase();
            [b"application/x-www-form-urlencoded".as_slice(), b"multipart/form-data"]
                .iter()
                .any(|form| kind.windows(form.len()).any(|part| part == *form))
        });
        if form && self.surface == Surface::Rest {
            return Err(Refusal::Malformed("the API takes JSON, not forms"));
        }
        let asks = matches!(asked.method, Method::GET | Method::HEAD);
        if mints(&segments) && !asks || segments.first() == Some(&"copilot_internal") {
            let name = &self.path;
            return Err(Refusal::Unlisted(format!(
                "{name} hands out a token, and tools have none"
            )));
        }
        Ok(())
    }
}

/// Whether the answer would be a token.
fn mints(segments: &[&str]) -> bool {
    match segments {
        ["app", "installations", .., "access_tokens"] | ["applications", ..] => true,
        ["app-manifests", _, "conversions"] | ["authorizations", ..] => true,
        [.., "actions", "runners", last] => {
            matches!(*last, "registration-token" | "remove-token" | "generate-jitconfig")
        }
        _ => false,
    }
}

fn repository(segments: &[String]) -> Value {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["repos" | "networks", owner, name, ..] => {
            let name = name.strip_suffix(".git").unwrap_or(name);
            texts([format!("{owner}/{name}")], true)
        }
        // About somebody, something general, or gists, which have no name.
        ["user"] | ["users" | "orgs", _] | ["gists", ..] => Value::Texts(Vec::new()),
        ["user", part] if OWN.contains(part) => Value::Texts(Vec::new()),
        ["" | "rate_limit" | "meta" | "versions" | "zen" | "octocat" | "emojis"] => {
            Value::Texts(Vec::new())
        }
        ["gitignore" | "licenses" | "markdown", ..] => Value::Texts(Vec::new()),
        // Searches, lists of what somebody has, teams, numbers: there may be any in them.
        _ => Value::Unknown,
    }
}

/// What of the account is about no repository.
const OWN: [&str; 6] =
    ["emails", "gpg_keys", "keys", "orgs", "social_accounts", "ssh_signing_keys"];

/// What stands encoded, as a server reads it; `None` where it is no text.
fn decode(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = (*byte == b'%').then(|| segment.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(meant) => {
                decoded.push(meant);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}
