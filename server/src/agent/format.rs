//! The catalogue as models want it.
//!
//! Owns: the forms of definitions that each kind of model or client takes. Must not: know
//! how they are asked for.

use serde_json::{Value, json};

use super::catalogue::Described;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `{name, description, input_schema}`
    Anthropic,
    /// `{type: "function", function: {name, description, parameters}}`
    Openai,
    /// The same, as Ollama takes it.
    Ollama,
    /// As MCP lists tools.
    Mcp,
}

impl Format {
    /// Every form.
    pub(crate) const ALL: [Format; 4] =
        [Format::Anthropic, Format::Openai, Format::Ollama, Format::Mcp];

    /// By which it is asked for.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Format::Anthropic => "anthropic",
            Format::Openai => "openai",
            Format::Ollama => "ollama",
            Format::Mcp => "mcp",
        }
    }

    /// The only way from text.
    pub(crate) fn parse(text: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.as_str() == text)
    }
}

/// What somebody wants of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    format: Option<Format>,
    small: Option<bool>,
}

impl Asked {
    /// A parameter.
    pub(crate) fn say(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("format", text) => {
                let format = Format::parse(text).ok_or_else(|| {
                    let names = Format::ALL.map(Format::as_str).join(", ");
                    format!("format is one of {names}")
                })?;
                self.format = Some(format);
            }
            ("set", "small") => self.small = Some(true),
            ("set", "all") => self.small = Some(false),
            ("set", _) => return Err("set is small or all".to_owned()),
            _ => return Err("only format and set are known here".to_owned()),
        }
        Ok(())
    }

    /// Whether anything is asked for beside the plain list.
    pub(crate) fn is_said(self) -> bool {
        self != Asked::default()
    }

    /// Those that are wanted, as they are wanted. What Ollama runs are small models: they
    /// get the small set unless all are asked for.
    pub(crate) fn answer(self, tools: &[Described]) -> Value {
        let small = self.small.unwrap_or(self.format == Some(Format::Ollama));
        let wanted = tools.iter().filter(|tool| !small || SMALL.contains(&tool.name.as_str()));
        match self.format {
            Some(format) => wanted.map(|tool| definition(tool, format)).collect(),
            None => json!({"tools": wanted.map(own).collect::<Vec<_>>()}),
        }
    }
}

/// Everything that is known of a tool.
pub(crate) fn own(tool: &Described) -> Value {
    let Described { name, description, input, output, hints } = tool;
    json!({
        "name": name,
        "description": description,
        "input_schema": input,
        "output_schema": output,
        "hints": hints,
    })
}

/// The five that small models are given: one of seven chooses worse than one of five.
pub(crate) const SMALL: [&str; 5] =
    ["read_file", "write_file", "list_directory", "run_command", "search_files"];

/// As MCP lists tools.
pub(crate) fn mcp(tools: &[Described]) -> Value {
    tools.iter().map(|tool| definition(tool, Format::Mcp)).collect()
}

/// A name for people: `read_file` is "Read file"; a program keeps its own.
fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    match letters.next().filter(|_| words != name) {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => words,
    }
}

/// A schema as short as it may be: a model reads all of it before each call, and some
/// servers of models take neither lists of types nor alternatives. What may be left out is
/// not required, so that nobody is told of null.
fn short(mut schema: Value) -> Value {
    let Value::Object(object) = &mut schema else { return schema };
    object.remove("title");
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::String(about)) = object.get_mut("description") {
        *about = about.replace('\n', " ");
    }
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    let is_null = |one: &Value| one.get("type").is_some_and(|kind| kind == "null");
    if let Some(Value::Array(mut any)) = object.remove("anyOf") {
        any.retain(|one| !is_null(one));
        match <[Value; 1]>::try_from(any) {
            Ok([Value::Object(only)]) => only.into_iter().for_each(|(name, value)| {
                object.entry(name).or_insert(value);
            }),
            Ok([only]) => drop(object.insert("anyOf".to_owned(), json!([only]))),
            Err(any) => drop(object.insert("anyOf".to_owned(), any.into())),
        }
    }
    if let Some(Value::Array(one_of)) = object.get("oneOf") {
        let words: Option<Vec<Value>> = one_of
            .iter()
            .map(|one| one.get("const").filter(|word| word.is_string()))
            .map(|word| word.cloned())
            .collect();
        if let Some(words) = words {
            object.remove("oneOf");
            object.insert("type".to_owned(), "string".into());
            object.insert("enum".to_owned(), words.into());
        }
    }
    for (name, inner) in object.iter_mut() {
        match (name.as_str(), inner) {
            // Their names are no words of JSON Schema.
            ("properties", Value::Object(fields)) => {
                fields.values_mut().for_each(|field| *field = short(field.take()));
            }
            ("items" | "additionalProperties", inner) => *inner = short(inner.take()),
            ("anyOf" | "oneOf", Value::Array(all)) => {
                all.iter_mut().for_each(|one| *one = short(one.take()));
            }
            _ => {}
        }
    }
    schema
}

/// One definition.
pub(crate) fn definition(tool: &Described, format: Format) -> Value {
    let Described { name, description, input, output, hints } = tool;
    let input = &short(input.clone());
    match format {
        Format::Anthropic => {
            json!({"name": name, "description": description, "input_schema": input})
        }
        Format::Openai | Format::Ollama => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": input},
        }),
        Format::Mcp => json!({
            "name": name,
            "title": title(name),
            "description": description,
            "inputSchema": input,
            "outputSchema": output,
            "annotations": {
                "title": title(name),
                "readOnlyHint": hints.read_only,
                "destructiveHint": hints.destructive,
                "idempotentHint": hints.idempotent,
                "openWorldHint": hints.open_world,
            },
        }),
    }
}
