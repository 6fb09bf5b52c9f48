//! The routes of the first tool server: the schemas of the tools behind them, with their names.
//!
//! Owns: what is called otherwise there. Must not: know the tools; their schemas are theirs.

use serde_json::{Map, Value, json};

use super::super::original::camel;
use crate::agent::{Described, fields_of};

/// Routes of the first tool server: the tool behind each, the names of its schemas, fields
/// that have to be there, and fields of its output that have another name.
pub(super) const ORIGINAL: [Original; 4] = [
    Original {
        name: "search",
        tool: "search_files",
        schemas: "ToolSearch",
        needs: &["pattern", "type"],
        renames: &[("total", "totalFound"), ("mtime", "lastModified")],
    },
    Original {
        name: "read",
        tool: "read_file",
        schemas: "ToolRead",
        needs: &["path"],
        renames: &[("mtime", "lastModified"), ("lines", "lineCount")],
    },
    Original {
        name: "command",
        tool: "run_shell",
        schemas: "ToolCommand",
        needs: &["command"],
        renames: &[],
    },
    Original {
        name: "edit",
        tool: "edit_file",
        schemas: "ToolEdit",
        needs: &["path", "findText", "replaceText"],
        renames: &[("mtime", "lastModified")],
    },
];

/// One of them.
pub(super) struct Original {
    pub(super) name: &'static str,
    pub(super) tool: &'static str,
    pub(super) schemas: &'static str,
    needs: &'static [&'static str],
    renames: &'static [(&'static str, &'static str)],
}

/// The tool's input with the fields of the route.
pub(super) fn request(tool: &Described, original: &Original) -> Value {
    let mut schema = tool.input.clone();
    let Some(object) = schema.as_object_mut() else { return schema };
    object.insert("required".to_owned(), json!(original.needs));
    if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (from, to) in fields_of(original.name) {
            if let Some(field) = fields.get(*to).cloned() {
                fields.insert((*from).to_owned(), field);
            }
        }
        for (_, own) in fields_of(original.name) {
            fields.remove(*own);
        }
        for name in original.needs {
            let least = usize::from(*name != "replaceText");
            let about = fields.get(*name).and_then(|field| field.get("description")).cloned();
            let mut field = json!({"type": "string", "minLength": least});
            if *name == "type" {
                field = json!({"type": "string", "enum": ["glob", "regex", "exact"]});
            }
            if let (Some(about), Some(field)) = (about, field.as_object_mut()) {
                field.insert("description".to_owned(), about);
            }
            fields.insert((*name).to_owned(), field);
        }
    }
    schema
}

/// The tool's output in the names of the route.
pub(super) fn result(tool: &Described, original: &Original) -> Value {
    let mut schema = tool.output.clone();
    rename(&mut schema, original.renames);
    in_camel(&mut schema);
    let Some(object) = schema.as_object_mut() else { return schema };
    let fields = object.remove("properties").and_then(|fields| match fields {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    let mut fields: Map<String, Value> = fields.unwrap_or_default();
    let needed = object.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut needed: Vec<String> = needed.filter_map(Value::as_str).map(str::to_owned).collect();
    needed.extend(["success", "executionTime"].map(str::to_owned));
    fields.insert("success".to_owned(), json!({"type": "boolean"}));
    fields.insert(
        "executionTime".to_owned(),
        json!({"type": "integer", "minimum": 0, "description": "In milliseconds."}),
    );
    if original.name == "read" {
        needed.push("content".to_owned());
        let about = "The text; null where the file is no text.";
        fields.insert(
            "content".to_owned(),
            json!({"type": ["string", "null"], "description": about}),
        );
    }
    if original.name == "command" {
        let about = "Where its time was up: what is wrong.";
        fields.insert("error".to_owned(), json!({"type": "string", "description": about}));
        fields.insert("code".to_owned(), json!({"type": "string"}));
    }
    object.insert("properties".to_owned(), Value::Object(fields));
    object.insert("required".to_owned(), json!(needed));
    schema
}

/// Names of members in camelCase, however deep.
fn in_camel(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(fields)) = object.get_mut("properties") {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, field)| (camel(&name), field))
                    .collect();
            }
            if let Some(Value::Array(needed)) = object.get_mut("required") {
                for name in needed {
                    *name = name.as_str().map(camel).into();
                }
            }
            object.values_mut().for_each(in_camel);
        }
        Value::Array(list) => list.iter_mut().for_each(in_camel),
        _ => {}
    }
}

/// Members of objects, however deep.
fn rename(schema: &mut Value, names: &[(&str, &str)]) {
    match schema {
        Value::Object(object) => {
            for (from, to) in names {
                if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut)
                    && let Some(field) = fields.remove(*from)
                {
                    fields.insert((*to).to_owned(), field);
                }
                for needed in
                    object.get_mut("required").and_then(Value::as_array_mut).into_iter().flatten()
                {
                    if needed == from {
                        *needed = (*to).into();
                    }
                }
            }
            object.values_mut().for_each(|value| rename(value, names));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}
