//! What is not a call: health and tools on every socket; status, reload and
//! approvals and metrics on the control socket.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tool_protocol::{Code, Id, PROTOCOL, Refusal};

use super::accept::Context;
use super::mcp::version_of;
use crate::agent::format;
use crate::audit::Audit;
use crate::broker::{Approvals, Broker, Peer, ProjectError, render_script};
use crate::registry::Tool;

/// How long an answer waits for something new.
const LONG_POLL: Duration = Duration::from_secs(20);

/// Asks for a look at tools.d; the answer says what changed.
pub(crate) type Reload = mpsc::Sender<oneshot::Sender<Value>>;

/// What answers an operation.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Text of any length, which goes before the message in chunks of stdout.
    pub(crate) text: Option<String>,
    /// The last message.
    pub(crate) last: Vec<u8>,
}

/// The answer to an operation.
pub(crate) async fn answer(
    context: &Context,
    peer: Peer,
    op: &str,
    object: &[u8],
    id: Option<&Id>,
) -> Result<Answer, Refusal> {
    let mut text = None;
    let mut value = match op {
        "health" => health(context),
        "tools" if !context.rules.control => match definitions(context, object).await? {
            Some((definitions, version)) => {
                text = Some(definitions);
                let paths = context.broker.workspace.paths().filter_map(Path::to_str);
                json!({ "ok": true, "version": version, "workspaces": paths.collect::<Vec<_>>() })
            }
            None => tools(context),
        },
        "status" if context.rules.control => {
            serde_json::to_value(context.broker.status().await).map_err(internal)?
        }
        "reload" if context.rules.control => {
            let (sender, receiver) = oneshot::channel();
            context.reload.send(sender).await.map_err(internal)?;
            receiver.await.map_err(internal)?
        }
        "approvals" | "approve" | "deny" | "revoke" if context.rules.control => {
            let asked: Asked = serde_json::from_slice(object).map_err(|error| {
                Refusal::new(Code::BadRequest, format!("the operation {op}: {error}"))
            })?;
            approvals(&context.broker.approvals, peer, op, asked).await?
        }
        "project" if context.rules.control => {
            let asked: OfProject = serde_json::from_slice(object).map_err(|error| {
                Refusal::new(Code::BadRequest, format!("the operation {op}: {error}"))
            })?;
            let (told, shown) = project(&context.broker, peer, &asked)?;
            text = shown;
            told
        }
        "metrics" if context.rules.control => {
            text = Some(context.broker.figures());
            json!({ "ok": true })
        }
        _ => {
            let message = format!("no such operation on this socket: {}", op.escape_default());
            return Err(Refusal::new(Code::UnknownOp, message));
        }
    };
    if let (Some(id), Some(object)) = (id, value.as_object_mut()) {
        object.insert("id".to_owned(), serde_json::to_value(id).map_err(internal)?);
    }
    let payload = serde_json::to_vec(&value).map_err(internal)?;
    if payload.len() <= tool_protocol::limits::MAX_FRAME {
        return Ok(Answer { text, last: payload });
    }
    let last = shorten(value).ok_or_else(|| internal("the answer does not fit one message"))?;
    Ok(Answer { text, last })
}

/// Whether calls are taken, and if not, why.
fn health(context: &Context) -> Value {
    let unrecorded = || context.broker.audit.as_ref().and_then(Audit::is_refusing);
    let error = if context.broker.draining.is_cancelled() {
        Some("the server is stopping".to_owned())
    } else {
        unrecorded().map(|why| {
            format!(
                "calls are refused: the audit cannot be written: {why}: see `tool-server status`"
            )
        })
    };
    let mut health = json!({
        "ok": error.is_none(),
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let (Some(error), Some(object)) = (error, health.as_object_mut()) {
        object.insert("error".to_owned(), error.into());
    }
    health
}

/// What an operation on approvals may say beside its name.
#[derive(Deserialize)]
struct Asked {
    /// The list is wanted when its generation is another one.
    after: Option<u64>,
    /// Which question, or which standing approval.
    approval: Option<String>,
    /// For how long a yes stands.
    for_seconds: Option<u64>,
    /// Yes although not all of it was shown.
    #[serde(default)]
    unseen: bool,
    /// Why not.
    reason: Option<String>,
}

async fn approvals(
    approvals: &Approvals,
    peer: Peer,
    op: &str,
    asked: Asked,
) -> Result<Value, Refusal> {
    let Asked { after, approval, for_seconds, unseen, reason } = asked;
    if op == "approvals" {
        if let Some(generation) = after {
            // Nothing new: the same list again.
            drop(timeout(LONG_POLL, approvals.changed_since(generation)).await);
        }
        return serde_json::to_value(approvals.list()).map_err(internal);
    }
    let missing = || Refusal::new(Code::BadRequest, "the member approval is missing");
    let approval = approval.ok_or_else(missing)?;
    let told = match op {
        "approve" => {
            approvals.approve(&approval, peer.uid, for_seconds.map(Duration::from_secs), unseen)?
        }
        "deny" => approvals.deny(&approval, peer.uid, &reason.unwrap_or_default())?,
        _ => approvals.revoke(&approval)?,
    };
    Ok(json!({ "told": told }))
}

/// What an operation on the project's setup says beside its name.
#[derive(Deserialize)]
struct OfProject {
    /// show, approve, deny, run.
    #[serde(rename = "do")]
    what: String,
    /// A hash, or the beginning of one.
    #[serde(default)]
    hash: String,
}

fn project(
    broker: &Broker,
    peer: Peer,
    asked: &OfProject,
) -> Result<(Value, Option<String>), Refusal> {
    let bad = |error: ProjectError| Refusal::new(Code::BadRequest, error.to_string());
    let told = match asked.what.as_str() {
        "show" => {
            let (status, script) = broker.show_project().map_err(bad)?;
            let status = serde_json::to_value(status).map_err(internal)?;
            return Ok((status, script.as_ref().map(render_script)));
        }
        "approve" => broker.approve_project(&asked.hash, peer),
        "deny" => broker.deny_project(&asked.hash, peer),
        "run" => broker.repeat_project(peer),
        _ => return Err(Refusal::new(Code::BadRequest, "show, approve, deny or run")),
    };
    Ok((json!({ "told": told.map_err(bad)? }), None))
}

/// How definitions of tools may be asked for.
#[derive(Deserialize)]
struct Wanted {
    format: Option<String>,
    set: Option<String>,
    /// They are wanted when they are others than these.
    after: Option<String>,
}

/// The catalogue as models want it, of any length, and its version; where a form or a set
/// is asked for.
async fn definitions(
    context: &Context,
    object: &[u8],
) -> Result<Option<(String, String)>, Refusal> {
    let bad = |message: String| Refusal::new(Code::BadRequest, message);
    let wanted: Wanted = serde_json::from_slice(object)
        .map_err(|error| bad(format!("the operation tools: {error}")))?;
    let mut asked = format::Asked::default();
    for (name, value) in [("format", wanted.format), ("set", wanted.set)] {
        if let Some(value) = value {
            asked.say(name, &value).map_err(bad)?;
        }
    }
    if !asked.is_said() {
        return Ok(None);
    }
    let mut snapshots = context.broker.registry.subscribe();
    let end = Instant::now() + LONG_POLL;
    loop {
        snapshots.borrow_and_update();
        let answer = asked.answer(&context.agent.tools(context.rules.tools.as_deref()));
        let version = version_of(&answer);
        if wanted.after.as_ref().is_some_and(|after| *after == version) {
            tokio::select! {
                Ok(()) = snapshots.changed() => continue,
                () = context.broker.draining.cancelled() => {}
                () = sleep_until(end) => {}
            }
        }
        let text = serde_json::to_string_pretty(&answer).map_err(internal)?;
        return Ok(Some((text, version)));
    }
}

fn tools(context: &Context) -> Value {
    let snapshot = context.broker.registry.snapshot();
    let tools: Vec<Value> = snapshot
        .tools
        .values()
        .filter(|tool| context.rules.serves(&tool.name))
        .map(|tool| in_short(tool))
        .collect();
    let own = snapshot.own(context.broker.registry.options());
    let own = own.filter(|tool| context.rules.serves(&tool.name)).map(|tool| in_short(tool));
    // Apart: whoever makes a command of each of `tools` makes none of these.
    json!({ "tools": tools, "own": own.collect::<Vec<Value>>() })
}

fn in_short(tool: &Tool) -> Value {
    let (default, ..) = tool.policy.unmatched();
    let default = if tool.unrestricted() { "unrestricted" } else { default.as_str() };
    let mut said = Map::new();
    said.insert("name".to_owned(), json!(tool.name));
    said.insert("default".to_owned(), json!(default));
    if let Some(text) = &tool.description {
        said.insert("description".to_owned(), json!(text));
    }
    if !tool.is_confined() {
        said.insert("sandbox".to_owned(), json!("off"));
    }
    Value::Object(said)
}

/// Halves the longest lists until the answer fits, and says that it did.
fn shorten(mut value: Value) -> Option<Vec<u8>> {
    for _ in 0..32 {
        let object = value.as_object_mut()?;
        object.insert("truncated".to_owned(), Value::Bool(true));
        let longest = object
            .values_mut()
            .filter_map(Value::as_array_mut)
            .max_by_key(|list| serde_json::to_vec(list).map_or(0, |bytes| bytes.len()))?;
        longest.truncate(longest.len() / 2);
        let payload = serde_json::to_vec(&value).ok()?;
        if payload.len() <= tool_protocol::limits::MAX_FRAME {
            return Some(payload);
        }
    }
    None
}

fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Internal, error.to_string())
}
