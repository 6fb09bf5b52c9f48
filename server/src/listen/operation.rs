//! What is not a call: health and tools on every socket, status and reload on
//! the control socket.

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tool_protocol::{Code, Id, PROTOCOL, Refusal};

use super::accept::Context;

/// Asks for a look at tools.d; the answer says what changed.
pub(crate) type Reload = mpsc::Sender<oneshot::Sender<Value>>;

/// The payload that answers an operation.
pub(crate) async fn answer(
    context: &Context,
    op: &str,
    id: Option<&Id>,
) -> Result<Vec<u8>, Refusal> {
    let mut value = match op {
        "health" => json!({
            "ok": !context.broker.draining.is_cancelled(),
            "protocol": PROTOCOL,
            "version": env!("CARGO_PKG_VERSION"),
        }),
        "tools" if !context.rules.control => tools(context),
        "status" if context.rules.control => {
            serde_json::to_value(context.broker.status().await).map_err(internal)?
        }
        "reload" if context.rules.control => {
            let (sender, receiver) = oneshot::channel();
            context.reload.send(sender).await.map_err(internal)?;
            receiver.await.map_err(internal)?
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
        return Ok(payload);
    }
    shorten(value).ok_or_else(|| internal("the answer does not fit one message"))
}

fn tools(context: &Context) -> Value {
    let snapshot = context.broker.registry.snapshot();
    let tools: Vec<Value> = snapshot
        .tools
        .values()
        .filter(|tool| context.rules.serves(&tool.name))
        .map(|tool| {
            let default = if tool.unrestricted() { "unrestricted" } else { tool.default.as_str() };
            match &tool.description {
                Some(text) => {
                    json!({"name": tool.name, "default": default, "description": text})
                }
                None => json!({"name": tool.name, "default": default}),
            }
        })
        .collect();
    json!({ "tools": tools })
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
