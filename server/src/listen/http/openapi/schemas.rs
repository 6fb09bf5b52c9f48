//! The envelopes: what several routes take or give.
//!
//! Owns: their schemas, by name. Must not: know a tool.

use serde_json::{Map, Value, json};

use super::super::original::OPERATIONS;
use super::reference;

/// What several routes have.
pub(super) fn common() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let failure = json!({
        "type": "object",
        "properties": {"code": text, "message": text, "rule": text, "hint": text},
        "required": ["code", "message"],
    });
    let all = json!({
        "Failure": failure,
        "Health": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "version": text},
            "required": ["ok", "version"],
        },
        "Tool": {
            "type": "object",
            "properties": {
                "name": text,
                "description": text,
                "input_schema": {"type": "object"},
                "output_schema": {"type": "object"},
                "hints": {"type": "object", "additionalProperties": {"type": "boolean"}},
            },
            "required": ["name", "description", "input_schema", "output_schema", "hints"],
        },
        "Refused": {
            "type": "object",
            "properties": {
                "success": {"const": false},
                "tool": text,
                "output": {"description": "Beside an error, what there is of it."},
                "error": reference("Failure"),
                "duration_ms": {"type": "integer", "minimum": 0},
                "call_id": text,
            },
            "required": ["success", "tool", "output", "error", "duration_ms"],
        },
        "ToolErrorResponse": {
            "type": "object",
            "properties": {
                "success": {"const": false},
                "error": text,
                "code": text,
                "details": {
                    "type": "object",
                    "properties": {
                        "timestamp": {"type": "string", "format": "date-time"},
                        "path": text,
                        "method": text,
                        "rule": text,
                        "hint": text,
                        "callId": text,
                    },
                    "required": ["timestamp", "path", "method"],
                },
            },
            "required": ["success", "error", "code", "details"],
        },
        "ContainerOperationRequest": {
            "type": "object",
            "properties": {"operation": {"enum": OPERATIONS}},
            "required": ["operation"],
        },
        "ContainerOperationResult": {
            "type": "object",
            "properties": {
                "success": {"type": "boolean"},
                "operation": {"enum": OPERATIONS},
                "executionTime": {"type": "integer", "minimum": 0},
            },
            "required": ["success", "operation", "executionTime"],
        },
        "TestToolRequest": {
            "type": "object",
            "description": "The tool's name, and its input; with another name than a tool's the \
                            answer is that there is none.",
            "properties": {
                "name": {"description": "A tool's name."},
                "input": {"description": "An object: the tool's input."},
            },
        },
        "TestToolResult": {"oneOf": [
            {
                "type": "object",
                "properties": {"success": {"const": true}, "result": {}},
                "required": ["success", "result"],
            },
            reference("TestToolRefused"),
            {
                "type": "object",
                "properties": {"error": {"const": "Tool not found"}},
                "required": ["error"],
                "additionalProperties": false,
            },
        ]},
        "TestToolRefused": {
            "type": "object",
            "properties": {"success": {"const": false}, "error": text},
            "required": ["success", "error"],
            "additionalProperties": false,
        },
    });
    match all {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}
