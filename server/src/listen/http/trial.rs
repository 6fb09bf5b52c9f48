//! `POST /api/test-tool`, the one route of the second tool server: `{name, input}`, and
//! always 200.
//!
//! Owns: its shapes. Must not: know a tool's work.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use tool_protocol::{Code, Fault, Observation};

use super::House;
use super::answer::{Problem, json as reply};
use super::body::Said;
use super::guard::Caller;
use super::original::camel;
use crate::agent::known_as;

/// Pages of a directory that are put together, and entries of each.
const PAGES: usize = 20;
const ENTRIES: usize = 5_000;

type Object = Map<String, Value>;

/// What is told of a call.
enum Told {
    Result(Value),
    Error(String),
    NoTool,
}

/// `POST /api/test-tool`
pub(super) async fn test_tool(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut said, room) = house.body(&caller, request).await?.object()?;
    let Some(Value::String(name)) = said.remove("name") else {
        return Ok(reply(StatusCode::OK, &json!({"error": "Tool not found"})));
    };
    let input = match said.remove("input") {
        Some(Value::Object(input)) => input,
        None | Some(Value::Null) => Object::new(),
        Some(_) => return Ok(failed("input is to be an object")),
    };
    let _room = room;
    Ok(match told(&house, &caller, &name, input).await {
        Ok(Told::Result(result)) => {
            reply(StatusCode::OK, &json!({"success": true, "result": result}))
        }
        Ok(Told::Error(error)) => failed(&error),
        Ok(Told::NoTool) => reply(StatusCode::OK, &json!({"error": "Tool not found"})),
        Err(problem) => return Err(problem),
    })
}

fn failed(error: &str) -> Response {
    reply(StatusCode::OK, &json!({"success": false, "error": error}))
}

async fn told(house: &House, caller: &Caller, name: &str, input: Object) -> Result<Told, Problem> {
    let (command, cwd) = (input.get("command").cloned(), input.get("cwd").cloned());
    let (tool, text) = match known_as(name, Value::Object(input).to_string()) {
        Ok(known) => known,
        Err(failure) => return Ok(Told::Error(failure.message)),
    };
    if tool == "list_directory" {
        return list(house, caller, &text).await;
    }
    let seen = call(house, caller, &tool, text).await?;
    let output = match outcome(&seen) {
        Ok(output) => output,
        Err(told) => return Ok(told),
    };
    Ok(Told::Result(match tool.as_str() {
        "read_file" => {
            let Some(content) = output.get("content") else {
                return Ok(Told::Error("this file is no text".to_owned()));
            };
            let mut result = json!({"path": output.get("path"), "content": content});
            // Never a part that looks like the whole.
            if output.get("truncated") == Some(&Value::Bool(true))
                && let Some(result) = result.as_object_mut()
            {
                result.insert("truncated".to_owned(), true.into());
                for name in ["next_line", "next_byte"] {
                    let next = output.get(name).cloned().unwrap_or_default();
                    result.insert(name.to_owned(), next);
                }
            }
            result
        }
        "write_file" => json!({"path": output.get("path"), "status": "ok"}),
        "run_shell" | "run_command" => {
            let mut result = json!({
                "command": command,
                "cwd": cwd.unwrap_or_else(|| ".".into()),
                "stdout": output.get("stdout"),
                "stderr": output.get("stderr"),
                "exitCode": output.get("exit_code"),
            });
            // Never base64 that looks like what was written.
            for name in ["stdout_encoding", "stderr_encoding"] {
                let encoding = output.get(name).filter(|encoding| **encoding != "utf-8");
                if let (Some(encoding), Some(result)) = (encoding, result.as_object_mut()) {
                    result.insert(camel(name), encoding.clone());
                }
            }
            result
        }
        _ => Value::Object(output),
    }))
}

/// A directory whole, as readdir has it: hidden files too.
async fn list(house: &House, caller: &Caller, text: &str) -> Result<Told, Problem> {
    let mut input: Object = serde_json::from_str(text).unwrap_or_default();
    for (name, value) in [("all", json!(true)), ("limit", json!(ENTRIES))] {
        input.entry(name).or_insert(value);
    }
    let mut entries = Vec::new();
    for _ in 0..PAGES {
        let text = Value::Object(input.clone()).to_string();
        let seen = call(house, caller, "list_directory", text).await?;
        let mut output = match outcome(&seen) {
            Ok(output) => output,
            Err(told) => return Ok(told),
        };
        let page = output.remove("entries");
        entries.extend(page.iter().flat_map(|page| page.as_array()).flatten().map(entry));
        let Some(next) = output.remove("next") else {
            return Ok(Told::Result(Value::Array(entries)));
        };
        input.insert("after".to_owned(), next);
    }
    let message = format!("more than {} entries: ask list_directory in parts", PAGES * ENTRIES);
    Ok(Told::Error(message))
}

/// `{name, type}`; what is no directory is a file there.
fn entry(of: &Value) -> Value {
    let path = of.get("path").or_else(|| of.get("name")).cloned().unwrap_or_default();
    let name = match path.as_str() {
        Some(path) => path.rsplit('/').next().unwrap_or(path).into(),
        None => path,
    };
    let is_directory = of.get("type").and_then(Value::as_str) == Some("directory");
    json!({"name": name, "type": if is_directory { "dir" } else { "file" }})
}

async fn call(
    house: &House,
    caller: &Caller,
    tool: &str,
    text: String,
) -> Result<Observation, Problem> {
    let said = Said { bytes: text.into_bytes(), room: None };
    house.call(caller, tool.to_owned(), said).await
}

/// What a tool gave, or what is told instead.
fn outcome(seen: &Observation) -> Result<Object, Told> {
    match (&seen.error, &seen.output) {
        (Some(failure), _) if failure.code == Fault::Broker(Code::UnknownTool) => Err(Told::NoTool),
        (Some(failure), _) => Err(Told::Error(failure.message.clone())),
        (None, Some(output)) => serde_json::from_str(output.get())
            .map_err(|error| Told::Error(format!("the tool's output is no object: {error}"))),
        (None, None) => Err(Told::Error("the tool said nothing".to_owned())),
    }
}
