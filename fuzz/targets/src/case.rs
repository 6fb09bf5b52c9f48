//! A definition and a call from lines of text.
//!
//! Owns: the little language that corpora of `grammar` and `rules` are written
//! in. A line that says nothing is passed over, so that most mutations of a case
//! are a case. Must not: check anything; that is what is being tested.
//!
//! | line | meaning |
//! | --- | --- |
//! | `style NAME…` | these switches of the command are on; `-NAME`: off |
//! | `option NOTATION`, `harmless SPELLING`, `alias NAME`, `subcommands WORD` | of the command |
//! | `set NOTATION`, `use` | of a set of options; the command uses it |
//! | `command NAME`, `up` | a command beneath it, and back |
//! | `shipped TOOL` | some of the grammar of tools.d/TOOL, and its facts |
//! | `default D`, `unread D`, `mode M`, `protected P` | of the definition |
//! | `rule D`, then `sub S`, `if O`, `without O` | a rule; what it is about |
//! | `operands TOML`, `directory TOML`, `facts TOML` | matchers of the rule, as they are |
//! | `cwd PATH`, `head NAME`, `config LINE` | where the call is made |
//! | `call` | what follows are its arguments, one a line |

use std::fmt::Write;

use tool_policy::facts::{Observed, git};
use tool_policy::{Decision, Scene};

/// A case, before anything of it is loaded.
#[derive(Debug, Default)]
pub struct Case<'a> {
    /// `[grammar]`, of what the lines say of it; none where they say nothing.
    pub grammar: Option<String>,
    /// The tool whose grammar it is instead.
    pub shipped: Option<&'a str>,
    pub default: Option<Decision>,
    pub unread: Option<Decision>,
    pub observes: bool,
    pub protected: Vec<&'a str>,
    pub rules: Vec<Rule<'a>>,
    pub directory: &'a [u8],
    pub head: Vec<u8>,
    pub config: Vec<u8>,
    pub call: Call,
}

/// `[[rule]]`.
#[derive(Clone, Debug)]
pub struct Rule<'a> {
    pub id: String,
    pub decision: Decision,
    pub subcommands: Vec<&'a str>,
    pub options: Vec<&'a str>,
    pub without: Vec<&'a str>,
    /// Member and value, in TOML.
    pub others: Vec<(&'a str, &'a str)>,
}

/// Arguments, in one buffer: each slice of them, an empty one too, has its place.
#[derive(Clone, Debug, Default)]
pub struct Call {
    buffer: Vec<u8>,
}

/// The workspace of every case.
pub const ROOT: &[u8] = b"/workspace";

#[derive(Debug, Default)]
struct Node<'a> {
    name: &'a str,
    options: Vec<&'a str>,
    harmless: Vec<&'a str>,
    aliases: Vec<&'a str>,
    switches: Vec<(&'a str, bool)>,
    subcommands: Option<&'a str>,
    uses: bool,
    commands: Vec<Node<'a>>,
}

/// Reads a case.
pub fn parse(data: &[u8]) -> Case<'_> {
    let (head, call) = match find(data, b"\ncall\n") {
        Some(at) => (&data[..at], &data[at + 6..]),
        None => (data, &b""[..]),
    };
    let mut case = Case { directory: b"/workspace/x", call: Call::new(call), ..Case::default() };
    let mut path = vec![Node::default()];
    let mut set = Vec::new();
    for line in head.split(|byte| *byte == b'\n') {
        if let Some(directory) = line.strip_prefix(b"cwd ") {
            case.directory = directory;
        } else if let Some(name) = line.strip_prefix(b"head ") {
            case.head = [b"ref: refs/heads/", name, b"\n"].concat();
        } else if let Some(line) = line.strip_prefix(b"config ") {
            case.config.extend_from_slice(line);
            case.config.push(b'\n');
        } else if let Ok(line) = std::str::from_utf8(line) {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            take(&mut case, &mut path, &mut set, key, value);
        }
    }
    while path.len() > 1 {
        up(&mut path);
    }
    if let Some(tool) = path.pop().filter(|tool| !tool.is_empty() || !set.is_empty()) {
        let mut toml = String::from("[grammar]\n");
        tool.write(&mut toml, &mut String::from("grammar"));
        if !set.is_empty() {
            writeln!(toml, "[grammar.sets]\nshared = {set:?}").expect("a string");
        }
        case.grammar = Some(toml);
    }
    case
}

fn take<'a>(
    case: &mut Case<'a>,
    path: &mut Vec<Node<'a>>,
    set: &mut Vec<&'a str>,
    key: &str,
    value: &'a str,
) {
    let here = path.last_mut().expect("the tool");
    match key {
        "style" => {
            here.switches.extend(value.split(' ').map(|name| match name.strip_prefix('-') {
                Some(name) => (name, false),
                None => (name, true),
            }))
        }
        "option" => here.options.push(value),
        "harmless" => here.harmless.push(value),
        "alias" => here.aliases.push(value),
        "subcommands" => here.subcommands = Some(value),
        "set" => set.push(value),
        "use" => here.uses = true,
        "command" if path.len() < 10 => path.push(Node { name: value, ..Node::default() }),
        "up" if path.len() > 1 => up(path),
        "shipped" => case.shipped = Some(value),
        "default" => case.default = Decision::parse(value),
        "unread" => case.unread = Decision::parse(value),
        "mode" => case.observes = value == "observe",
        "protected" => case.protected.push(value),
        "rule" if case.rules.len() < 5 => {
            let id = format!("r{}", case.rules.len());
            let decision = Decision::parse(value).unwrap_or(Decision::Deny);
            case.rules.push(Rule {
                id,
                decision,
                subcommands: Vec::new(),
                options: Vec::new(),
                without: Vec::new(),
                others: Vec::new(),
            });
        }
        _ => {
            let Some(rule) = case.rules.last_mut() else { return };
            match key {
                "sub" => rule.subcommands.push(value),
                "if" => rule.options.push(value),
                "without" => rule.without.push(value),
                "operands" => rule.others.push(("operands", value)),
                "directory" => rule.others.push(("directory", value)),
                "facts" => rule.others.push(("facts", value)),
                _ => {}
            }
        }
    }
}

fn up(path: &mut Vec<Node<'_>>) {
    if let Some(node) = path.pop()
        && let Some(above) = path.last_mut()
    {
        above.commands.push(node);
    }
}

impl Node<'_> {
    fn is_empty(&self) -> bool {
        self.options.is_empty() && self.commands.is_empty() && self.switches.is_empty()
    }

    // Rust's escapes of a string are TOML's, but for those of a few characters
    // that no case needs.
    fn write(&self, toml: &mut String, path: &mut String) {
        let mut line = |text: String| writeln!(toml, "{text}").expect("a string");
        line(format!("options = {:?}", self.options));
        if !self.harmless.is_empty() {
            line(format!("harmless = {:?}", self.harmless));
        }
        if !self.aliases.is_empty() {
            line(format!("aliases = {:?}", self.aliases));
        }
        if let Some(how) = self.subcommands {
            line(format!("subcommands = {how:?}"));
        }
        if self.uses {
            line("uses = [\"shared\"]".to_owned());
        }
        let mut seen = Vec::new();
        for (name, on) in self.switches.iter().rev() {
            if !name.is_empty() && !seen.contains(name) {
                seen.push(name);
                line(format!("{name:?} = {on}"));
            }
        }
        for node in &self.commands {
            let length = path.len();
            write!(path, ".commands.{:?}", node.name).expect("a string");
            writeln!(toml, "[{path}]").expect("a string");
            node.write(toml, path);
            path.truncate(length);
        }
    }
}

impl Case<'_> {
    /// The definition with these of its rules, in this order.
    pub fn toml(&self, rules: &[&Rule<'_>], default: Option<Decision>, unread: Decision) -> String {
        let mut toml = String::new();
        let mut line = |text: String| writeln!(toml, "{text}").expect("a string");
        if let Some(default) = default {
            line(format!("default = \"{default}\""));
        }
        if self.grammar.is_some() || self.shipped.is_some() {
            line(format!("unread = \"{unread}\""));
        }
        if self.observes {
            line("mode = \"observe\"".to_owned());
        }
        if !self.protected.is_empty() {
            line(format!("protected = {:?}", self.protected));
        }
        for rule in rules {
            line(format!("[[rule]]\nid = \"{}\"\nreason = \"it is so\"", rule.id));
            line(format!("decision = \"{}\"", rule.decision));
            let lists = [
                ("subcommand", &rule.subcommands),
                ("options", &rule.options),
                ("without", &rule.without),
            ];
            for (name, list) in lists {
                if !list.is_empty() {
                    line(format!("{name} = {list:?}"));
                }
            }
            for (name, value) in &rule.others {
                line(format!("{name} = {value}"));
            }
        }
        if self.shipped.is_none()
            && let Some(grammar) = &self.grammar
        {
            line(grammar.clone());
        }
        toml
    }

    /// What was read of the repository.
    pub fn observed(&self) -> Observed {
        git::observe(&self.head, &self.config)
    }

    /// Where the call is made.
    pub fn scene<'s>(&'s self, roots: &'s [Vec<u8>], observed: &'s Observed) -> Scene<'s> {
        Scene { directory: self.directory, roots, observed }
    }
}

impl Call {
    /// Lines as arguments.
    pub fn new(lines: &[u8]) -> Call {
        Call { buffer: lines.to_vec() }
    }

    /// The arguments that a program could be started with.
    pub fn args(&self) -> Vec<&[u8]> {
        if self.buffer.is_empty() {
            return Vec::new();
        }
        self.buffer.split(|byte| *byte == b'\n').collect()
    }
}

/// Where a piece begins.
pub fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    text.windows(piece.len()).position(|window| window == piece)
}
