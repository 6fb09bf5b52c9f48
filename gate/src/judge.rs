//! Who decides on a request, and what it is shown.

use std::future::Future;
use std::pin::Pin;

use tool_policy::definition::gate::Adapter;
use tool_policy::facts::Facts;

/// A request in plain sight, before a byte of it is sent on.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which of the grant's gates.
    pub gate: usize,
    /// Who understood it.
    pub adapter: Adapter,
    /// To which host and port.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The name of the credential that will be added, never its value.
    pub credential: Option<String>,
    /// As the tool's own subcommand would be: `push` for a push, else nothing.
    pub subcommand: &'static [&'static str],
    /// What it consists of: one part, or one for each ref of a push.
    pub parts: Vec<Part>,
    /// More lines for an approver, of what goes on and changes what all of it means:
    /// an answer is for those too.
    pub beside: Vec<String>,
    /// What of its body is not in their lines.
    pub rest: Rest,
    /// About so many bytes lie in memory for it, beside its lines, until it is decided on.
    pub held: usize,
}

/// What of a request's body no line shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: it has no body, or the lines have all that counts of it.
    #[default]
    Nothing,
    /// So many bytes; a line has the digest of the whole.
    Digest(usize),
    /// More than so many, which nobody has read: an answer is for this very request
    /// and no other.
    Unread(usize),
}

impl Rest {
    /// Where the lines say what the bytes are that they do not show.
    pub(crate) fn named(self) -> Rest {
        match self {
            Rest::Nothing => Rest::Nothing,
            Rest::Digest(_) => Rest::Digest(0),
            Rest::Unread(_) => Rest::Unread(0),
        }
    }
}

/// One thing that a request does.
#[derive(Debug, Clone)]
pub struct Part {
    /// It changes something at the host.
    pub changes: bool,
    /// By the names that rules use; a fact that is not listed is not known on the
    /// wire, and a rule about it is not asked.
    pub facts: Facts,
    /// One line for an approver: what happens, with the caller's words escaped.
    pub shown: String,
}

/// A decision on one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It goes on.
    Allowed,
    /// It does not.
    Refused {
        /// The rule's id.
        rule: String,
        /// Why, for the caller.
        reason: String,
        /// What to do instead.
        instead: Option<String>,
    },
}

/// Decides, which may take as long as a person takes; an answer for each part.
pub trait Judge: Send + Sync + 'static {
    /// Decides on what is about to be sent.
    fn judge<'a>(
        &'a self,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Vec<Answer>> + Send + 'a>>;

    /// Whether a person would be asked about it. Then more is found out before it is
    /// decided on, and put into the lines; where nobody knows, it is.
    fn asks(&self, _request: &Request) -> bool {
        true
    }

    /// Something was refused that no rule is about: a host that is not listed, a
    /// message that is not understood. For the audit.
    fn refused(&self, adapter: Option<Adapter>, host: &str, why: &str);
}
