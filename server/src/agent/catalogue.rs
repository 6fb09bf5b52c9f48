//! Which tools there are, and what each takes and gives.
//!
//! Owns: the broker's own tools: a row each; and the form that a tool of tools.d has for
//! agents. Schemas are made from the types that inputs are parsed into. Must not: run
//! anything.

use std::sync::OnceLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_files::Operation;
use tool_files::edit::EditFile;
use tool_files::list::ListDirectory;
use tool_files::read::ReadFile;
use tool_files::search::SearchFiles;
use tool_files::template::InjectTemplate;
use tool_files::write::WriteFile;
use tool_protocol::{Failure, Text};

use super::alias;
use super::input::{Wrong, read};
use super::run::{CommandInput, NpmInput, Program, RunOutput, ShellInput, ToolInput};
use super::servers::{
    Ask, LogsInput, LogsOutput, StartInput, StartOutput, Starting, StatusInput, StatusOutput,
    StopInput, StopOutput,
};
use super::word;
use crate::broker::{OnFiles, Work};
use crate::registry::Tool;

/// What a tool does to the world, as clients may show it. Not a promise: a tool of tools.d
/// is taken for the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hints {
    /// It changes nothing.
    pub(crate) read_only: bool,
    /// It may take something away.
    pub(crate) destructive: bool,
    /// Once more is as good as once.
    pub(crate) idempotent: bool,
    /// It may reach beyond this machine.
    pub(crate) open_world: bool,
}

const READS: Hints =
    Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
const WRITES: Hints =
    Hints { read_only: false, destructive: true, idempotent: true, open_world: false };
const EDITS: Hints =
    Hints { read_only: false, destructive: true, idempotent: false, open_world: false };
const RUNS: Hints =
    Hints { read_only: false, destructive: true, idempotent: false, open_world: true };

/// A tool, for those that call it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// By which it is called.
    pub(crate) name: String,
    /// What it does, for models.
    pub(crate) description: String,
    /// JSON Schema of its input.
    pub(crate) input: Value,
    /// JSON Schema of its output.
    pub(crate) output: Value,
    /// What it does to the world.
    pub(crate) hints: Hints,
}

/// How a tool's input is made a call.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Work on files.
    Files(fn(&str) -> Result<Box<dyn Work>, Wrong>),
    /// A program and its arguments.
    Command,
    /// A line for a shell.
    Shell,
    /// npm install.
    Npm,
    /// A program that goes on.
    Start,
    /// Something about those that go on.
    Servers(fn(&str) -> Result<Ask, Wrong>),
    /// A tool of tools.d.
    Tool,
}

/// A call to be made.
pub(super) enum Prepared {
    /// Of the workspace's files.
    Files {
        /// The tool and its input.
        work: Box<dyn Work>,
        /// For the audit.
        words: Vec<Text>,
    },
    /// Of a program.
    Program(Program),
    /// Of one that goes on.
    Start(Starting),
    /// About one that does.
    Servers(Ask),
}

/// A row.
pub(super) struct Entry {
    /// As the registry has it.
    pub(super) name: &'static str,
    /// How it is called.
    pub(super) kind: Kind,
    description: &'static str,
    hints: Hints,
    schemas: fn() -> (Value, Value),
    made: OnceLock<(Value, Value)>,
}

/// Whether it reads or writes one file, and no tree of them.
pub(super) fn is_short(name: &str) -> bool {
    matches!(name, ReadFile::NAME | EditFile::NAME | WriteFile::NAME)
}

/// Every row.
pub(super) fn own() -> impl Iterator<Item = &'static Entry> {
    static ALL: OnceLock<Vec<Entry>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            files::<ReadFile>(
                "Read a text file of the workspace, or some lines of it. At most 1 MiB at once; \
                 next_line says how to read on. Binary files give type and size.",
                READS,
            ),
            files::<WriteFile>(
                "Write a whole file of the workspace, at once or not at all; directories on \
                 the way are made. With if_match only if it still is what was read.",
                WRITES,
            ),
            files::<EditFile>(
                "Replace text in a file of the workspace. Each old_text must be there exactly \
                 once, unless all is true. All edits are made, or none; dry_run shows the diff.",
                EDITS,
            ),
            files::<ListDirectory>(
                "List a directory of the workspace: type, size and time of each entry.",
                READS,
            ),
            files::<SearchFiles>(
                "Search the workspace for files by name (glob, regex, exact) or for lines by \
                 content (regex, literal). What .gitignore names is left out.",
                READS,
            ),
            files::<InjectTemplate>(
                "Put the files of a template, given or from a directory, into a directory of \
                 the workspace; {{NAME}} in contents and names is replaced by variables. All \
                 files are written, or none; dry_run says what would be.",
                WRITES,
            ),
            other::<CommandInput, RunOutput>(
                "run_command",
                Kind::Command,
                "Run a program with its arguments in the workspace; no shell is in between. \
                 Gives stdout, stderr and exit code.",
                RUNS,
            ),
            other::<ShellInput, RunOutput>(
                "run_shell",
                Kind::Shell,
                "Run one line of shell in the workspace: pipes and redirections are fine, \
                 several commands are several calls.",
                RUNS,
            ),
            other::<NpmInput, RunOutput>(
                "npm_install",
                Kind::Npm,
                "Install packages with npm: those that package.json names, or further ones.",
                RUNS,
            ),
            other::<StartInput, StartOutput>(
                "dev_server_start",
                Kind::Start,
                "Start a program that goes on after the call, such as a development server. \
                 With ready, waits for that text in its output.",
                RUNS,
            ),
            other::<StopInput, StopOutput>(
                "dev_server_stop",
                Kind::Servers(|input| Ok(Ask::Stop(read(input)?))),
                "End a development server that dev_server_start started, with all its processes.",
                WRITES,
            ),
            other::<StatusInput, StatusOutput>(
                "dev_server_status",
                Kind::Servers(|input| Ok(Ask::Status(read(input)?))),
                "Say which development servers run, and how others ended.",
                READS,
            ),
            other::<LogsInput, LogsOutput>(
                "dev_server_logs",
                Kind::Servers(|input| Ok(Ask::Logs(read(input)?))),
                "Give the last lines that a development server wrote, or those since a number.",
                READS,
            ),
        ]
    })
    .iter()
}

/// A tool of tools.d, as agents see it.
pub(super) fn of(tool: &Tool) -> Described {
    static SCHEMAS: OnceLock<(Value, Value)> = OnceLock::new();
    let (input, output) = SCHEMAS.get_or_init(schemas::<ToolInput, RunOutput>).clone();
    let name = &tool.name;
    let description = match &tool.description {
        Some(description) => format!("{name}: {description}. Arguments as on a command line."),
        None => format!("Run {name} in the workspace. Arguments as on a command line."),
    };
    Described { name: name.clone(), description, input, output, hints: RUNS }
}

impl Entry {
    /// For those that call it.
    pub(super) fn describe(&self) -> Described {
        let (input, output) = self.made.get_or_init(self.schemas).clone();
        Described {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            input,
            output,
            hints: self.hints,
        }
    }
}

impl Kind {
    /// What an input asks for. `called`: the name that the caller used.
    pub(super) fn prepare(
        self,
        tool: &Tool,
        called: &str,
        input: &str,
    ) -> Result<Prepared, Failure> {
        let understood = |wrong: Wrong| wrong.failure(&tool.name, alias::fields_of(called));
        let program = match self {
            Kind::Files(make) => {
                let work = make(input).map_err(understood)?;
                return Ok(Prepared::Files { work, words: words(input) });
            }
            Kind::Command => {
                let asked = read::<CommandInput>(input).map_err(understood)?;
                asked.check()?;
                Program::from(asked)
            }
            Kind::Shell => {
                let asked = read::<ShellInput>(input).map_err(understood)?;
                asked.check()?;
                Program::from(asked)
            }
            Kind::Npm => {
                let asked = read::<NpmInput>(input).map_err(understood)?;
                asked.check()?;
                Program::from(asked)
            }
            Kind::Start => {
                let asked = read::<StartInput>(input).map_err(understood)?;
                let starting = Starting::of(asked)?;
                starting.program.check()?;
                return Ok(Prepared::Start(starting));
            }
            Kind::Servers(ask) => return Ok(Prepared::Servers(ask(input).map_err(understood)?)),
            Kind::Tool => Program::from(read::<ToolInput>(input).map_err(understood)?),
        };
        program.check()?;
        Ok(Prepared::Program(program))
    }
}

fn files<O>(description: &'static str, hints: Hints) -> Entry
where
    O: Operation + 'static,
    O::Output: JsonSchema,
    O::Target: 'static,
{
    Entry {
        name: O::NAME,
        kind: Kind::Files(|input| Ok(Box::new(OnFiles::<O>::new(read::<O::Input>(input)?)))),
        description,
        hints,
        schemas: schemas::<O::Input, O::Output>,
        made: OnceLock::new(),
    }
}

fn other<I: JsonSchema, O: JsonSchema>(
    name: &'static str,
    kind: Kind,
    description: &'static str,
    hints: Hints,
) -> Entry {
    Entry { name, kind, description, hints, schemas: schemas::<I, O>, made: OnceLock::new() }
}

/// Inline, as models and strict clients want it: no references.
fn schemas<I: JsonSchema, O: JsonSchema>() -> (Value, Value) {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
    };
    let input = settings().for_deserialize().into_generator().into_root_schema_for::<I>();
    let output = settings().for_serialize().into_generator().into_root_schema_for::<O>();
    (plain(input.to_value()), plain(output.to_value()))
}

/// Without names of number formats that JSON Schema does not have: some clients warn of
/// each. The bounds that they stand for are in the schema anyway.
fn plain(mut schema: Value) -> Value {
    let number = |format: &Value| {
        let format = format.as_str().unwrap_or_default();
        ["uint", "int", "float", "double"].iter().any(|kind| format.starts_with(kind))
    };
    match &mut schema {
        Value::Object(object) => {
            if object.get("format").is_some_and(number) {
                object.remove("format");
            }
            object.values_mut().for_each(|inner| *inner = plain(inner.take()));
        }
        Value::Array(all) => all.iter_mut().for_each(|inner| *inner = plain(inner.take())),
        _ => {}
    }
    schema
}

/// What of an input says where it is about, for the audit; all else may be long.
#[derive(Default, Deserialize)]
#[serde(default)]
struct About {
    pattern: Option<Value>,
    template: Option<Value>,
    target: Option<Value>,
    path: Option<Value>,
}

/// That.
fn words(input: &str) -> Vec<Text> {
    let About { pattern, template, target, path } = serde_json::from_str(input).unwrap_or_default();
    let named = [pattern, template, target, path].into_iter().flatten();
    named.filter_map(|value| word(value.as_str()?)).collect()
}
