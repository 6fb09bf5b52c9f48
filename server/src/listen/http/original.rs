//! The routes of the first tool server, with its fields and its words.
//!
//! Owns: what is wrong with a request before any tool sees it, and the shapes of answers:
//! `success`, and the rest in camelCase. Must not: know a tool's work; each route is a call
//! of a tool by its own name.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};
use tool_protocol::{Failure, Observation};

use super::House;
use super::answer::{Problem, json};
use super::body::Said;
use super::guard::Caller;
use crate::agent::{fields_of, known_as};

/// What `/container-operation` does, each a tool of that name.
pub(super) const OPERATIONS: [&str; 6] = [
    "inject_template",
    "npm_install",
    "dev_server_start",
    "dev_server_stop",
    "dev_server_status",
    "dev_server_logs",
];

type Object = Map<String, Value>;

/// `POST /search`: files by name.
pub(super) async fn search(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let check = |said: &Object| {
        filled(said, "pattern")?;
        let kind = said.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("glob" | "regex" | "exact")) {
            return Err(invalid("type is glob, regex or exact"));
        }
        Ok(())
    };
    let seen = alias(&house, &caller, "search", request, check).await?;
    let mut told = output(seen, &[("total", "totalFound")])?;
    if let Some(Value::Array(results)) = told.get_mut("results") {
        for found in results.iter_mut().filter_map(Value::as_object_mut) {
            rename(found, "mtime", "lastModified");
            let path = found.get("path").and_then(Value::as_str);
            if let Some(whole) = path.and_then(|path| absolute(&house, path)) {
                found.insert("path".to_owned(), whole.into());
            }
        }
    }
    Ok(json(StatusCode::OK, &told))
}

/// `POST /read`
pub(super) async fn read(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let seen = alias(&house, &caller, "read", request, |said| filled(said, "path")).await?;
    let mut told = output(seen, &[("mtime", "lastModified"), ("lines", "lineCount")])?;
    // What is no text has none.
    told.entry("content").or_insert(Value::Null);
    Ok(json(StatusCode::OK, &told))
}

/// `POST /command`: a line for a shell.
pub(super) async fn command(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let seen = alias(&house, &caller, "command", request, |said| filled(said, "command")).await?;
    Ok(json(StatusCode::OK, &output(seen, &[])?))
}

/// `POST /edit`
pub(super) async fn edit(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let check = |said: &Object| {
        filled(said, "path")?;
        filled(said, "findText")?;
        match said.get("replaceText") {
            Some(Value::String(_)) => Ok(()),
            _ => Err(invalid("replaceText is missing, or no text; it may be empty")),
        }
    };
    let seen = alias(&house, &caller, "edit", request, check).await?;
    Ok(json(StatusCode::OK, &output(seen, &[("mtime", "lastModified")])?))
}

/// `POST /container-operation`: `{operation, …}`, the rest being the tool's input.
pub(super) async fn container(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut said, room) = house.body(&caller, request).await?.object().map_err(plain)?;
    let asked = said.remove("operation").ok_or_else(|| invalid("operation is missing"))?;
    let asked = asked.as_str().unwrap_or_default().replace('-', "_");
    let Some(tool) = OPERATIONS.iter().find(|name| **name == asked) else {
        return Err(invalid(format!("operation is one of {}", OPERATIONS.join(", "))));
    };
    let input: Object = said.into_iter().map(|(name, value)| (snake(&name), value)).collect();
    let bytes = Value::Object(input).to_string().into_bytes();
    let seen = house.call(&caller, (*tool).to_owned(), Said { bytes, room }).await;
    let mut told = output(seen.map_err(plain)?, &[])?;
    told.insert("operation".to_owned(), (*tool).into());
    Ok(json(StatusCode::OK, &told))
}

/// A call by another name, with its fields.
async fn alias(
    house: &House,
    caller: &Caller,
    name: &str,
    request: Request,
    check: impl Fn(&Object) -> Result<(), Problem>,
) -> Result<Observation, Problem> {
    let (said, room) = house.body(caller, request).await?.object()?;
    check(&said)?;
    let (tool, input) =
        known_as(name, Value::Object(said).to_string()).map_err(|failure| refused(&failure))?;
    let bytes = input.into_bytes();
    let mut seen = house.call(caller, tool, Said { bytes, room }).await.map_err(plain)?;
    if let Some(failure) = &mut seen.error {
        failure.message = in_their_words(name, &failure.message);
    }
    Ok(seen)
}

/// The member that is wrong, by its name on these routes.
fn in_their_words(name: &str, message: &str) -> String {
    let named = fields_of(name).iter().find_map(|(theirs, ours)| {
        let (before, after) = message.split_once(&format!(" understood: {ours}: "))?;
        Some(format!("{before} understood: {theirs}: {after}"))
    });
    named.unwrap_or_else(|| message.to_owned())
}

/// An observation as these routes tell it; what a command wrote before its time was up too.
fn output(seen: Observation, names: &[(&str, &str)]) -> Result<Object, Problem> {
    let Some(text) = &seen.output else {
        let none = Failure::new(tool_protocol::Fault::ExecutionError, "the tool said nothing");
        return Err(plain(Problem::of(&seen, seen.error.as_ref().unwrap_or(&none))));
    };
    let output: Object = serde_json::from_str(text.get()).map_err(|error| {
        let message = format!("the tool's output is no object: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    })?;
    let mut told = Object::new();
    told.insert("success".to_owned(), seen.success.into());
    if let Some(failure) = &seen.error {
        told.insert("error".to_owned(), failure.message.as_str().into());
        told.insert("code".to_owned(), failure.code.to_string().into());
    }
    told.extend(output);
    for (from, to) in names {
        rename(&mut told, from, to);
    }
    let mut told = in_camel(told);
    told.insert("executionTime".to_owned(), seen.duration_ms.into());
    Ok(told)
}

fn filled(said: &Object, name: &str) -> Result<(), Problem> {
    let text = said.get(name).and_then(Value::as_str);
    if text.is_some_and(|text| !text.is_empty()) {
        return Ok(());
    }
    Err(invalid(format!("{name} is missing, empty, or no text")))
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_INPUT", message)
}

fn refused(failure: &Failure) -> Problem {
    let status = super::answer::status_of(failure);
    plain(Problem::new(status, failure.code.to_string(), failure.message.clone()))
}

/// With a status that these routes have always had.
fn plain(problem: Problem) -> Problem {
    let status = match problem.status() {
        StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        StatusCode::GATEWAY_TIMEOUT => StatusCode::REQUEST_TIMEOUT,
        StatusCode::INSUFFICIENT_STORAGE => StatusCode::INTERNAL_SERVER_ERROR,
        other => other,
    };
    problem.with_status(status)
}

/// A path as the first server gave it: whole.
fn absolute(house: &House, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let root = std::str::from_utf8(house.agent.broker().workspace.first()).ok()?;
    Some(format!("{}/{path}", root.trim_end_matches('/')))
}

fn rename(of: &mut Object, from: &str, to: &str) {
    if let Some(value) = of.remove(from) {
        of.insert(to.to_owned(), value);
    }
}

/// Members however deep; no tool's output has names that a caller chose.
fn in_camel(object: Object) -> Object {
    fn within(value: Value) -> Value {
        match value {
            Value::Object(object) => Value::Object(in_camel(object)),
            Value::Array(list) => list.into_iter().map(within).collect(),
            other => other,
        }
    }
    object.into_iter().map(|(name, value)| (camel(&name), within(value))).collect()
}

/// `exit_code` as `exitCode`.
pub(super) fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// `templateName` as `template_name`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (one, other) in [("exit_code", "exitCode"), ("path", "path"), ("a_b_c", "aBC")] {
            assert_eq!(camel(one), other);
            assert_eq!(snake(other), one);
        }
    }
}
