//! One request for a signature, from its bytes to its answer.
//!
//! A request is a line with the namespace, then what is to be signed, to the end of
//! what is sent. The answer is `+` and the signature, or `-` and one line that says
//! why there is none.
//!
//! Must not: sign before the judge has answered, or something else than the judge was
//! shown.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tool_policy::definition::gate::{Adapter, Credential};
use tool_policy::facts::{Facts, Text, Value};
use zeroize::Zeroizing;

use super::key::Key;
use super::object::{Object, Person};
use super::sshsig::armored;
use crate::credential::Keeper;
use crate::judge::{Answer, Judge, Part, Request, Rest};
use crate::redact::Live;

/// The one namespace: a signature of git's is good for nothing else.
pub const NAMESPACE: &[u8] = b"git";
/// A commit or a tag that is larger is not signed.
pub const LARGEST: usize = 1 << 20;
/// As the subcommand of a rule: `subcommand = ["sign"]`.
pub const SIGN: &[&str] = &["sign"];
/// What a request's `gate` is: none of the definition's.
pub const NO_GATE: usize = usize::MAX;
/// The longest name of a namespace that is read.
const LONGEST_NAME: usize = 64;
/// How long whoever asks may take to say what for.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many of the tree and the parents of a commit are shown.
const ROOTS: usize = 4;
/// As many digits of their ids.
const DIGITS: usize = 12;
/// How much of a subject is shown.
const SHOWN: usize = 120;

/// The text of a key, or why there is none.
pub type KeyText = Result<Zeroizing<Vec<u8>>, String>;

/// Where the key is.
pub trait KeySource: Send + Sync + 'static {
    /// As it is written in the definition: where it is, never what it is.
    fn name(&self) -> String;

    /// Its text, read now.
    fn read(&self) -> Pin<Box<dyn Future<Output = KeyText> + Send + '_>>;
}

/// The definition's key, by the keeper of credentials; it is looked for in the call's
/// output, too.
impl KeySource for (Arc<Keeper>, Credential, Option<Arc<Live>>) {
    fn name(&self) -> String {
        self.1.name()
    }

    fn read(&self) -> Pin<Box<dyn Future<Output = KeyText> + Send + '_>> {
        Box::pin(async {
            match self.0.get(&self.1).await {
                Ok(Some(secret)) => {
                    if let Some(live) = &self.2 {
                        live.learn(&secret).map_err(|error| error.to_string())?;
                    }
                    Ok(Zeroizing::new(secret.expose().to_vec()))
                }
                Ok(None) => Err(format!("there is no signing key at {}", self.1.name())),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// What one call may have signed; dropped with it.
pub struct Grant {
    /// The key.
    pub key: Box<dyn KeySource>,
    /// Who decides.
    pub judge: Arc<dyn Judge>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Grant").field("key", &self.key.name()).finish_non_exhaustive()
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The signature, for git.
    Signed(String),
    /// One line for people.
    Refused(String),
}

impl Answered {
    /// As it is sent.
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, text) = match self {
            Answered::Signed(text) => (b'+', text),
            Answered::Refused(text) => (b'-', text),
        };
        [&[kind], text.as_bytes()].concat()
    }

    /// From what was sent; `None` where it was cut off.
    pub fn parse(bytes: &[u8]) -> Option<Answered> {
        let (kind, text) = bytes.split_first()?;
        let text = std::str::from_utf8(text).ok()?.to_owned();
        match kind {
            b'+' if text.ends_with("-----END SSH SIGNATURE-----\n") => Some(Answered::Signed(text)),
            b'-' => Some(Answered::Refused(text)),
            _ => None,
        }
    }
}

/// The bytes of a request.
pub fn request(namespace: &[u8], message: &[u8]) -> Vec<u8> {
    [namespace, b"\n", message].concat()
}

/// Serves one request. That the other end is gone is no matter.
pub async fn serve<S>(mut stream: S, grant: &Grant)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let mut bytes = Vec::new();
    let most = u64::try_from(LONGEST_NAME + 1 + LARGEST + 1).unwrap_or(u64::MAX);
    let mut limited = (&mut stream).take(most);
    let answered = match timeout(PATIENCE, limited.read_to_end(&mut bytes)).await {
        Ok(Ok(_)) => answer(&bytes, grant).await,
        Ok(Err(_)) => return,
        Err(_elapsed) => Answered::Refused("the request for a signature did not come".to_owned()),
    };
    let sent = timeout(PATIENCE, async {
        stream.write_all(&answered.to_bytes()).await?;
        stream.shutdown().await
    });
    if !matches!(sent.await, Ok(Ok(()))) {
        tracing::debug!("a signature reached nobody");
    }
}

/// What a request is about: the object in it, or why it is not signed.
pub fn understand(bytes: &[u8]) -> Result<(&[u8], Object<'_>), String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("the request has no namespace")?;
    let (namespace, rest) = bytes.split_at_checked(end).unwrap_or_default();
    if namespace != NAMESPACE {
        let shown = namespace.get(..LONGEST_NAME).unwrap_or(namespace).escape_ascii();
        return Err(format!(
            "only commits and tags are signed here: the namespace {shown} is not \"git\""
        ));
    }
    let message = rest.get(1..).unwrap_or_default();
    if message.len() > LARGEST {
        return Err(format!(
            "what is to be signed is larger than {LARGEST} bytes: shorten its message"
        ));
    }
    let object = Object::parse(message).map_err(|error| error.to_string())?;
    Ok((message, object))
}

async fn answer(bytes: &[u8], grant: &Grant) -> Answered {
    let (message, object) = match understand(bytes) {
        Ok(understood) => understood,
        Err(why) => {
            grant.judge.refused(Some(Adapter::Git), "signing", &why);
            return Answered::Refused(why);
        }
    };
    let mut request = Request {
        gate: NO_GATE,
        adapter: Adapter::Git,
        host: "signing".to_owned(),
        port: 0,
        credential: Some(grant.key.name()),
        subcommand: SIGN,
        parts: vec![Part { changes: true, facts: facts(&object), shown: shown(&object, message) }],
        beside: Vec::new(),
        rest: Rest::Nothing,
        held: bytes.len(),
    };
    let give_up = |why: String| {
        grant.judge.refused(Some(Adapter::Git), "signing", &why);
        Answered::Refused(why)
    };
    // A person is told by which key, and nobody is asked where there is none.
    let mut asked = None;
    if grant.judge.asks(&request) {
        let fingerprint = match key(grant).await {
            Ok(key) => key.fingerprint(),
            Err(why) => return give_up(why),
        };
        // What is long stands behind it.
        for part in &mut request.parts {
            part.shown = format!("by the key {fingerprint}, {}", part.shown);
        }
        asked = Some(fingerprint);
    }
    match grant.judge.judge(&request).await.as_slice() {
        [Answer::Allowed] => {}
        _ if crate::weaken::is("signing-rules") => {}
        // The reason names the rule.
        [Answer::Refused { reason, instead, .. }] => {
            let mut line = format!("signing was refused: {reason}");
            if let Some(instead) = instead {
                line.push_str("; ");
                line.push_str(instead);
            }
            return Answered::Refused(line);
        }
        // A judge that does not answer has not allowed it.
        _ => return Answered::Refused("signing was not decided on".to_owned()),
    }
    match signature(message, grant, asked.as_deref()).await {
        Ok(signature) => Answered::Signed(signature),
        Err(why) => give_up(why),
    }
}

/// Reads the key.
async fn key(grant: &Grant) -> Result<Key, String> {
    Key::read(&grant.key.read().await?).map_err(|error| error.to_string())
}

/// Reads the key, signs, and forgets it. Whoever was asked was asked about that one.
async fn signature(message: &[u8], grant: &Grant, asked: Option<&str>) -> Result<String, String> {
    let key = key(grant).await?;
    if asked.is_some_and(|asked| asked != key.fingerprint()) {
        return Err("the signing key is another one than was asked about: ask again".to_owned());
    }
    armored(&key, message).map_err(|error| error.to_string())
}

/// What rules may ask about.
fn facts(object: &Object<'_>) -> Facts {
    let one = |bytes: &[u8]| Value::Texts(vec![Text::new(bytes.to_vec())]);
    let (kind, author, committer, tag) = match object {
        Object::Commit { author, committer, .. } => {
            (&b"commit"[..], one(author.email), committer.email, Value::Texts(Vec::new()))
        }
        // A tag has no author: a rule about authors is not met by it.
        Object::Tag { name, tagger, .. } => {
            (&b"tag"[..], Value::Texts(Vec::new()), tagger.email, one(name))
        }
    };
    Facts::from_iter([
        ("object", one(kind)),
        ("author", author),
        ("committer", one(committer)),
        ("tag", tag),
    ])
}

/// For an approver, on one line: what is signed, and by what it is known again.
fn shown(object: &Object<'_>, message: &[u8]) -> String {
    let whose = |person: &Person<'_>| format!("{} <{}>", plain(person.name), plain(person.email));
    let mut line = match object {
        Object::Commit { parents, roots, author, committer, subject } => {
            let mut line = format!("sign a commit \"{}\" by {}", plain(subject), whose(author));
            if committer != author {
                line.push_str(&format!(", committed by {}", whose(committer)));
            }
            if *parents > 1 {
                line.push_str(&format!(", a merge of {parents}"));
            }
            // `tree ID` and `parent ID`, a line each.
            let mut named = roots.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
            for name in named.by_ref().take(ROOTS) {
                let blank = name.iter().position(|byte| *byte == b' ').unwrap_or_default();
                let short = name.get(..blank + 1 + DIGITS).unwrap_or(name);
                line.push_str(&format!(", {}", plain(short)));
            }
            if named.next().is_some() {
                line.push_str(" and more");
            }
            line
        }
        Object::Tag { name, id, of, tagger, subject } => format!(
            "sign the tag {} of the {} {}, \"{}\", by {}",
            plain(name),
            plain(of),
            plain(id.get(..DIGITS).unwrap_or(id)),
            plain(subject),
            whose(tagger)
        ),
    };
    line.push_str(&format!(", SHA-256 of all but its times {}", lasting(message)));
    line
}

/// A digest of all that is signed but when it was made: git that is started again asks
/// for the same, a moment later.
fn lasting(message: &[u8]) -> String {
    let mut all = Context::new(&SHA256);
    let mut rest = message;
    // To the line that is empty.
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n').filter(|end| *end > 0) {
        let (line, after) = rest.split_at_checked(end).unwrap_or((rest, b""));
        let timed =
            [&b"author "[..], b"committer ", b"tagger "].iter().any(|one| line.starts_with(one));
        let name = line.iter().rposition(|byte| *byte == b'>').filter(|_| timed);
        all.update(name.and_then(|end| line.get(..=end)).unwrap_or(line));
        all.update(b"\n");
        rest = after.get(1..).unwrap_or_default();
    }
    all.update(rest);
    all.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Words of whoever asks: what would do something to a terminal is escaped.
fn plain(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.get(..SHOWN).unwrap_or(bytes).utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\'' => text.push(letter),
                _ => text.extend(letter.escape_debug()),
            }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    if bytes.len() > SHOWN {
        text.push('…');
    }
    text
}
