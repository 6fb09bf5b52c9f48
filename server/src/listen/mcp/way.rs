//! The way to the broker: what every door needs.
//!
//! Owns: what is asked and what comes back. Must not: know how it gets there.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::broker::Peer;
use crate::listen::unread::Room;

/// Who asks, by HTTP: on each request.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// For the broker.
    pub(super) peer: Peer,
    /// Cancelled when the session has ended, or nobody listens to it any more.
    pub(super) calls: CancellationToken,
    /// Where answers find room.
    pub(super) answers: Room,
}

/// A call to be made.
#[derive(Debug)]
pub(super) struct Asked {
    /// By name.
    pub(super) tool: String,
    /// As the client gave it.
    pub(super) input: Map<String, Value>,
    /// Takes results as they come.
    pub(super) pieces: Option<mpsc::Sender<Value>>,
    /// Told what is waited for.
    pub(super) notices: Option<mpsc::Sender<String>>,
    /// Ends it.
    pub(super) gone: CancellationToken,
    /// Who asks, where a connection does not say it.
    pub(super) visitor: Option<Visitor>,
}

impl Asked {
    /// A call that tells nothing meanwhile.
    pub(super) fn quiet(
        tool: &str,
        input: Value,
        gone: CancellationToken,
        visitor: Option<Visitor>,
    ) -> Asked {
        let input = match input {
            Value::Object(input) => input,
            _ => Map::new(),
        };
        Asked { tool: tool.to_owned(), input, pieces: None, notices: None, gone, visitor }
    }
}

/// What came of it.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    pub(super) tool: String,
    pub(super) output: Option<Value>,
    pub(super) error: Option<Wrong>,
    #[serde(default)]
    pub(super) duration_ms: u64,
    pub(super) call_id: Option<String>,
}

/// Why there is no output.
#[derive(Debug, Deserialize)]
pub(super) struct Wrong {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) rule: Option<String>,
    pub(super) hint: Option<String>,
}

/// The catalogue at a time.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// As MCP lists tools.
    pub(super) tools: Vec<rmcp::model::Tool>,
    /// Another one for another list.
    pub(super) version: String,
}

/// To the broker.
pub(super) trait Way: Clone + Send + Sync + 'static {
    /// The tools that there are.
    fn list(&self) -> impl Future<Output = Result<Listed, String>> + Send;

    /// A call. An error is no answer of a tool, but that nobody answered.
    fn call(&self, asked: Asked) -> impl Future<Output = Result<Seen, String>> + Send;

    /// Waits until the list is another one than that.
    fn changed(&self, from: String) -> impl Future<Output = Listed> + Send;

    /// The workspace's directories, absolute.
    fn workspaces(&self) -> &[String];
}

/// A number for a list of definitions.
pub(in crate::listen) fn version_of(definitions: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    definitions.to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
