//! What an adapter has to do its work with: one request, who decides, the way on.
//!
//! Owns: asking the judge, adding the credential, sending, and cleaning what comes
//! back. Must not: understand what is asked; adapters do.

use std::fmt;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, Response};
use tool_policy::definition::gate::{Adapter, Credential, Gate};
use url::Url;

use crate::body::Body;
use crate::credential::{CredentialError, Secret};
use crate::grant::Grant;
use crate::hygiene;
use crate::judge::{Answer, Part, Request, Rest};
use crate::missing;
use crate::redact::{self, Live};
use crate::refusal::Refusal;

/// A request of the call, its target checked; nothing of it has been sent on.
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its path, normal: it begins with `/`, has no `.`, `..` or empty segments, and
    /// nothing in it is encoded that need not be.
    pub path: String,
    /// What follows the `?`.
    pub query: Option<String>,
    /// The headers as they came: to be looked at. What goes on `send` picks.
    pub headers: HeaderMap,
    /// Its body, unread.
    pub body: Body,
}

// Headers and targets may have a caller's secrets; they are not shown.
impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Asked");
        shown.field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Asked {
    /// Whether something follows the head. A server that does not read it there would
    /// take it for the next request.
    pub(crate) fn has_body(&self) -> bool {
        !hyper::body::Body::is_end_stream(&self.body)
    }

    /// Path and query, as they are sent on.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// Where the request goes: a gate of a grant.
pub struct Site {
    grant: Arc<Grant>,
    index: usize,
    gate: Gate,
    /// The host, in small letters, as the call named it.
    pub host: String,
    /// The port that the call named.
    pub port: u16,
}

/// Which headers pass, and what a redirect means.
#[derive(Debug)]
pub struct Keeps {
    /// Of a request, beside none: names in small letters.
    pub request: &'static [&'static str],
    /// Of an answer, likewise.
    pub answer: &'static [&'static str],
    /// What an answer may point to.
    pub redirects: Redirects,
}

/// What a redirect means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// It is a refusal.
    Refuse,
    /// It goes back to the tool if its host is one of the grant's gates, written so
    /// that the tool comes here again; else it is a refusal.
    Gates,
    /// The adapter gets it as it is, and must not hand it on so.
    Adapter,
}

/// A request to be sent on.
pub struct Onward {
    /// Its method.
    pub method: Method,
    /// Where to.
    pub to: To,
    /// The headers to pick from.
    pub headers: HeaderMap,
    /// Headers that the adapter adds; they are not picked from.
    pub extra: Vec<(HeaderName, hyper::header::HeaderValue)>,
    /// Its body.
    pub body: Body,
    /// Which of the headers.
    pub keeps: &'static Keeps,
}

/// Where to.
#[derive(Debug)]
pub enum To {
    /// Path and query at the gate's host, with the gate's credential.
    Gate(String),
    /// Another URL, without any credential. Whether it may go there at all is for the
    /// adapter to say; private addresses are refused, those of the gate's `private` too
    /// where it is no host of the gate's own.
    Elsewhere(Url),
}

impl fmt::Debug for Onward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Onward").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Onward {
    /// The request as it was asked, to the gate's host.
    pub fn of(asked: Asked, keeps: &'static Keeps) -> Onward {
        let to = To::Gate(asked.target());
        let Asked { method, headers, body, .. } = asked;
        Onward { method, to, headers, extra: Vec::new(), body, keeps }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Site");
        shown.field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Site {
    /// The grant's gate of this index; `None` where it has none.
    pub(crate) fn new(grant: Arc<Grant>, index: usize, host: String, port: u16) -> Option<Site> {
        let gate = grant.gates.get(index)?.clone();
        Some(Site { grant, index, gate, host, port })
    }

    /// Its gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Which of the grant's gates it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What the call may do.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    fn request(
        &self,
        subcommand: &'static [&'static str],
        parts: Vec<Part>,
        beside: Vec<String>,
        rest: Rest,
        held: usize,
    ) -> Request {
        Request {
            gate: self.index,
            adapter: self.gate.adapter,
            host: self.host.clone(),
            port: self.port,
            credential: self.gate.credential.as_ref().map(|credential| credential.name()),
            subcommand,
            parts,
            beside,
            rest,
            held,
        }
    }

    /// The host as an address names it: with its port where that is not the usual one.
    pub(crate) fn authority(&self) -> String {
        match (self.port, self.gate.adapter) {
            // There it may be told apart, as plain HTTP and TLS.
            (80, _) | (443, Adapter::Git | Adapter::Github | Adapter::Npm) => self.host.clone(),
            (port, _) => format!("{}:{port}", self.host),
        }
    }

    /// Asks for a decision on each part, and shows these lines beside them; there are as
    /// many answers as parts. About so many bytes are held meanwhile.
    pub(crate) async fn judge(
        &self,
        subcommand: &'static [&'static str],
        parts: Vec<Part>,
        beside: Vec<String>,
        held: usize,
    ) -> Vec<Answer> {
        self.judge_with(subcommand, parts, beside, Rest::Nothing, held).await
    }

    async fn judge_with(
        &self,
        subcommand: &'static [&'static str],
        parts: Vec<Part>,
        beside: Vec<String>,
        rest: Rest,
        held: usize,
    ) -> Vec<Answer> {
        let wanted = parts.len();
        let request = self.request(subcommand, parts, beside, rest, held);
        let mut answers = self.grant.judge.judge(&request).await;
        // Whoever says nothing has not allowed it.
        answers.resize_with(wanted, || Answer::Refused {
            rule: String::new(),
            reason: "nothing was decided".to_owned(),
            instead: None,
        });
        answers
    }

    /// Asks for a decision on a request of one part.
    pub async fn allow(
        &self,
        subcommand: &'static [&'static str],
        part: Part,
    ) -> Result<(), Refusal> {
        self.allow_with(subcommand, part, Vec::new(), Rest::Nothing, 0).await
    }

    /// Whether a person would be asked about it: its body is held then, to be shown.
    pub(crate) fn asks(&self, subcommand: &'static [&'static str], part: &Part) -> bool {
        let request = self.request(subcommand, vec![part.clone()], Vec::new(), Rest::Nothing, 0);
        self.grant.judge.asks(&request)
    }

    /// Asks for a decision on a request of one part, with these lines beside its own,
    /// which leave this out; about so many bytes are held meanwhile.
    pub(crate) async fn allow_with(
        &self,
        subcommand: &'static [&'static str],
        part: Part,
        beside: Vec<String>,
        rest: Rest,
        held: usize,
    ) -> Result<(), Refusal> {
        for answer in self.judge_with(subcommand, vec![part], beside, rest, held).await {
            if let Answer::Refused { rule, reason, instead } = answer {
                return Err(Refusal::Ruled { rule, reason, instead });
            }
        }
        Ok(())
    }

    /// What an answer must not show, where that is to be seen to here.
    fn looks_for(
        &self,
        secret: &Secret,
        credential: &Credential,
    ) -> Result<Option<Arc<Live>>, CredentialError> {
        let Some(answers) = &self.grant.answers else { return Ok(None) };
        let unusable = |_more| CredentialError::Unusable {
            name: credential.name(),
            why: "it is too long to be looked for in answers",
        };
        answers.of(secret).map(Some).map_err(unusable)
    }

    /// Sends it with the credential, and gives the answer, cleaned.
    pub async fn send(&self, onward: Onward) -> Result<Response<Body>, Refusal> {
        let Onward { method, to, headers, extra, body, keeps } = onward;
        let (route, target, credential) = match to {
            To::Gate(target) => {
                let route = self.grant.upstream.route(&self.gate, &self.host, self.port)?;
                (route, target, self.gate.credential.as_ref())
            }
            To::Elsewhere(url) => {
                let (route, target) = self.grant.upstream.elsewhere(&self.gate, &url)?;
                (route, target, None)
            }
        };
        let mut picked = hygiene::headers::pick(&headers, keeps.request);
        hygiene::headers::join(&mut picked, hygiene::headers::more(&headers, &self.gate));
        for (name, value) in extra {
            picked.append(name, value);
        }
        let (credentials, redact) = (&self.grant.credentials, self.grant.redact.as_deref());
        let (mut missing, mut shows) = (None, None);
        if let Some(credential) = credential {
            match credentials.add(credential, &self.gate.scheme, &mut picked, redact).await? {
                None => missing = Some(credential.name()),
                Some(secret) => shows = self.looks_for(&secret, credential)?,
            }
        }
        if shows.is_some() {
            redact::answer::ask(&mut picked);
        }
        let head = method == Method::HEAD;
        let name = credential.map(|credential| credential.name());
        let upstream = &self.grant.upstream;
        let answer = upstream.send(&route, name, method, &target, picked, body).await?;
        let mut answer = hygiene::answer::clean(answer, head, keeps, &route, self)?;
        if let Some(live) = shows {
            answer = redact::answer::clean(answer, &live, &self.host).await?;
        }
        if let Some(name) = missing {
            missing::mark(&mut answer, &credentials.missing, self.gate.adapter, name, &self.host);
        }
        Ok(answer)
    }
}
