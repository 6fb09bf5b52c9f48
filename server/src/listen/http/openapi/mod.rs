//! All of it for programs: an OpenAPI 3.1 document.
//!
//! Owns: the document, made of the catalogue's own schemas and of the envelopes around
//! them. Must not: say what is not so; schemathesis asks every route by it.
//!
//! - `original`  the routes of the first tool server
//! - `schemas`   the envelopes

mod original;
mod schemas;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use self::original::ORIGINAL;
use self::schemas::common;
use super::House;
use super::answer::json as reply;
use super::original::camel;
use crate::agent::Described;

/// `GET /openapi.json`
pub(super) async fn document(State(house): State<Arc<House>>) -> Response {
    reply(StatusCode::OK, &of(&house.agent.tools(None)))
}

fn of(tools: &[Described]) -> Value {
    let mut schemas = common();
    let mut paths = Map::new();
    paths.insert("/health".to_owned(), json!({"get": health()}));
    let text = || json!({"type": "string"});
    for (path, id, summary, kind, schema) in [
        ("/", "page", "For people: the tools, as a page", "text/html", text()),
        ("/assets/page.css", "style", "The page's style", "text/css", text()),
        ("/assets/page.js", "script", "The page's script", "text/javascript", text()),
        ("/assets/icon.svg", "icon", "The page's icon", "image/svg+xml", text()),
        (
            "/events",
            "events",
            "What happens, as it happens; has no end",
            "text/event-stream",
            json!({"type": "string", "description":
                "Server-sent events: state, then began, changed, ended, refused, approvals, \
                 tools, attention, and figures each second, each of them JSON"}),
        ),
        (
            "/metrics",
            "metrics",
            "The server's figures, as Prometheus reads them",
            crate::metrics::CONTENT_TYPE,
            text(),
        ),
        (
            "/openapi.json",
            "openapi",
            "This document",
            "application/json",
            json!({"type": "object"}),
        ),
    ] {
        let mut content = Map::new();
        content.insert(kind.to_owned(), json!({"schema": schema}));
        let operation = operation(
            id,
            summary,
            None,
            json!({"description": "It", "content": content}),
            "Refused",
        );
        paths.insert(path.to_owned(), json!({"get": operation}));
    }
    paths.insert("/mcp".to_owned(), mcp());
    paths.insert("/tools".to_owned(), json!({"get": list()}));
    let mut taken = BTreeSet::new();
    for tool in tools {
        let name = type_name(&tool.name, &mut taken);
        schemas.insert(format!("{name}Input"), tool.input.clone());
        schemas.insert(format!("{name}Output"), tool.output.clone());
        schemas.insert(format!("{name}Observation"), observation(&name));
        paths.insert(format!("/tools/{}", tool.name), by_name(tool, &name));
    }
    for route in &ORIGINAL {
        let Some(tool) = tools.iter().find(|tool| tool.name == route.tool) else { continue };
        let (asked, told) =
            (format!("{}Request", route.schemas), format!("{}Result", route.schemas));
        schemas.insert(asked.clone(), original::request(tool, route));
        schemas.insert(told.clone(), original::result(tool, route));
        let summary = format!("{}: as the first tool server had it", route.tool);
        let operation =
            operation(route.name, &summary, Some(&asked), ok(&told), "ToolErrorResponse");
        paths.insert(format!("/{}", route.name), json!({"post": operation}));
    }
    let operation_of_container = operation(
        "container_operation",
        "What is done with the project's container; the other members are that tool's input",
        Some("ContainerOperationRequest"),
        ok("ContainerOperationResult"),
        "ToolErrorResponse",
    );
    paths.insert("/container-operation".to_owned(), json!({"post": operation_of_container}));
    let trial = operation(
        "test_tool",
        "A tool by its name, as the second tool server had it: always 200",
        Some("TestToolRequest"),
        ok("TestToolResult"),
        "TestToolRefused",
    );
    paths.insert("/api/test-tool".to_owned(), json!({"post": trial}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tool-server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tools for agents: files of the workspace and programs, by rules",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic", "description": "The token as the password"},
            },
            "schemas": schemas,
        },
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn ok(name: &str) -> Value {
    json!({"description": "Done", "content": content(&reference(name))})
}

fn operation(id: &str, summary: &str, asked: Option<&str>, told: Value, refused: &str) -> Value {
    let refused = json!({"description": "Not done", "content": content(&reference(refused))});
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "responses": {"200": told, "4XX": refused, "5XX": refused},
    });
    if let (Some(asked), Some(operation)) = (asked, operation.as_object_mut()) {
        let body = json!({"required": true, "content": content(&reference(asked))});
        operation.insert("requestBody".to_owned(), body);
    }
    operation
}

fn health() -> Value {
    let told = json!({"description": "It works", "content": content(&reference("Health"))});
    json!({
        "operationId": "health",
        "summary": "Whether calls are taken; needs no token",
        "security": [],
        "responses": {
            "200": told,
            "503": told,
            "4XX": {"description": "Refused", "content": content(&reference("Refused"))},
        },
    })
}

/// Its messages are the Model Context Protocol's to say.
fn mcp() -> Value {
    let told = |summary: &str, id: &str| {
        let message = json!({"schema": {"type": "object"}});
        let events = json!({"schema": {"type": "string"}});
        let kinds = json!({"application/json": message, "text/event-stream": events});
        let told = json!({"description": "As the protocol has it", "content": kinds});
        let refused = json!({"description": "Not done", "content": kinds});
        let responses =
            json!({"200": told, "202": {"description": "Taken"}, "4XX": refused, "5XX": refused});
        json!({"operationId": id, "summary": summary, "responses": responses})
    };
    let mut post = told("A message of the Model Context Protocol", "mcp");
    if let Some(post) = post.as_object_mut() {
        let body = json!({"required": true, "content": content(&json!({"type": "object"}))});
        post.insert("requestBody".to_owned(), body);
    }
    json!({
        "post": post,
        "get": told("A session's messages, as they come", "mcp_listen"),
        "delete": told("The end of a session", "mcp_end"),
    })
}

fn list() -> Value {
    let mut list = operation(
        "tools",
        "The tools: all that is known, or as a kind of model takes them",
        None,
        json!({"description": "Them", "content": content(&json!({"oneOf": [
            {
                "type": "object",
                "properties": {"tools": {"type": "array", "items": reference("Tool")}},
                "required": ["tools"],
            },
            {"type": "array", "items": {"type": "object"}},
        ]}))}),
        "Refused",
    );
    let parameter = |name: &str, about: &str, values: Value| {
        json!({"name": name, "in": "query", "description": about,
            "schema": {"type": "string", "enum": values}})
    };
    if let Some(list) = list.as_object_mut() {
        let parameters = json!([
            parameter(
                "format",
                "As which they are wanted",
                json!(["anthropic", "openai", "ollama", "mcp"])
            ),
            parameter(
                "set",
                "small: the five for small models, the default of ollama",
                json!(["small", "all"])
            ),
        ]);
        list.insert("parameters".to_owned(), parameters);
    }
    list
}

fn by_name(tool: &Described, name: &str) -> Value {
    let mut told = ok(&format!("{name}Observation"));
    if let Some(content) = told.get_mut("content").and_then(Value::as_object_mut) {
        let events = json!({"schema": {"type": "string", "description":
            "Server-sent events piece and notice, and at the end result with the observation"}});
        content.insert("text/event-stream".to_owned(), events);
    }
    let asked = format!("{name}Input");
    let call = operation(&tool.name, &tool.description, Some(&asked), told, "Refused");
    let one = operation(
        &format!("{}.definition", tool.name),
        "Its definition",
        None,
        ok("Tool"),
        "Refused",
    );
    json!({"get": one, "post": call})
}

/// What a tool that succeeded says.
fn observation(name: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "success": {"const": true},
            "tool": {"type": "string"},
            "output": reference(&format!("{name}Output")),
            "error": {"type": "null"},
            "duration_ms": {"type": "integer", "minimum": 0},
            "call_id": {"type": "string"},
        },
        "required": ["success", "tool", "output", "error", "duration_ms"],
    })
}

/// `read_file` as `ReadFile`; a name that is no word stays as it is.
fn type_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let pascal = camel(&format!("_{name}"));
    let chosen = if plain && !taken.contains(&pascal) { pascal } else { format!("{name}.") };
    taken.insert(chosen.clone());
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::http::routes;

    #[test]
    fn every_route_is_in_the_document() {
        // That it is the one that is given, a test of the server itself says.
        let docs = include_str!("../../../../../docs/openapi.json");
        let document: Value = serde_json::from_str(docs).unwrap();
        let paths = document["paths"].as_object().unwrap();
        for (path, _) in routes::table() {
            let there = match path.split_once('{') {
                Some((before, _)) => paths.keys().any(|known| known.starts_with(before)),
                None => paths.contains_key(path),
            };
            assert!(there, "{path} is in no document: add it to openapi");
        }
    }
}
