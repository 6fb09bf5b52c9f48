//! What is known of a call of gh, GitHub's command line.
//!
//! Owns: what `gh api` asks for, as gh itself reads its arguments, and which
//! repository and host a call names. Must not: read what a file or stdin holds.
//!
//! - `address`  hosts and repositories in words
//! - `graphql`  which operations a document has

mod address;
mod graphql;

use self::address::{Host, path, repository, split};
use self::graphql::operations;
use super::{Fact, Facts, Kind, Text, Value, fact, options};
use crate::grammar::CommandLine;

/// What this module tells.
#[rustfmt::skip]
pub(super) const FACTS: [Fact; 8] = [
    fact("help", Kind::Flag, "gh only prints help: --help, or a group of commands without one of them"),
    fact("method", Kind::Texts, "the HTTP method of `gh api`, in capital letters: what --method says, else POST where there are fields or --input, else GET"),
    fact("endpoint", Kind::Texts, "the path of `gh api` without the slash at its beginning, the query and the host; graphql for GraphQL"),
    fact("operation", Kind::Texts, "what `gh api graphql` does: query, mutation or subscription; not known where the query comes from a file or stdin"),
    fact("repo", Kind::Texts, "the repository that --repo names, OWNER/NAME; not known where it comes from the directory"),
    fact("host", Kind::Texts, "the hosts that --hostname, --repo, an address or HOST/OWNER/NAME name; none where it is gh's own default, not known where a name has other characters than a host's"),
    fact("scheme", Kind::Texts, "the schemes of the addresses that are named, in small letters"),
    fact("environment", Kind::Flag, "the program of --jq has the word env or $ENV, which read gh's environment"),
];

/// Fields of `gh api`, each with a value NAME=VALUE.
const FIELDS: [&str; 2] = ["--field", "--raw-field"];

/// What is known.
pub(super) fn facts(line: &CommandLine<'_>) -> Facts {
    let api = line.subcommand.first() == Some(&"api");
    let none = || Value::Texts(Vec::new());
    let (mut method, mut endpoint, mut operation) = (none(), none(), none());
    let mut places = Places::default();
    if api {
        let asked = Asked::of(line);
        method = one(asked.method());
        if let Some(word) = line.operands.first() {
            places.add(split(word));
        }
        endpoint = asked.endpoint.clone().map_or(Value::Unknown, one);
        operation = match &asked.endpoint {
            Some(path) if !path.eq_ignore_ascii_case(b"graphql") => none(),
            _ => asked.operation(line),
        };
    }
    places.of_operands(line);
    for host in options::values(line, &["--hostname"]) {
        places.host(Host::of(host));
    }
    let repo = match options::values(line, &["--repo"]).last() {
        None if api => none(),
        None => Value::Unknown,
        Some(said) => {
            let (name, address) = repository(said);
            places.add(address);
            name.map_or(Value::Unknown, |name| Value::Texts(vec![Text::new(name).folded()]))
        }
    };
    let reads = options::values(line, &["--jq"]).any(reads_environment);
    Facts::new(vec![
        ("help", Value::Flag(only_helps(line))),
        ("method", method),
        ("endpoint", endpoint),
        ("operation", operation),
        ("repo", repo),
        ("host", places.hosts.map_or(Value::Unknown, Value::Texts)),
        ("scheme", Value::Texts(places.schemes)),
        ("environment", Value::Flag(reads)),
    ])
}

/// Where a call leads.
struct Places {
    /// `None` where one is not known.
    hosts: Option<Vec<Text<'static>>>,
    schemes: Vec<Text<'static>>,
}

impl Default for Places {
    fn default() -> Places {
        Places { hosts: Some(Vec::new()), schemes: Vec::new() }
    }
}

impl Places {
    fn add(&mut self, address: address::Address<'_>) {
        self.host(address.host);
        self.schemes.extend(address.scheme.map(Text::new));
    }

    fn host(&mut self, host: Host) {
        match (host, &mut self.hosts) {
            (Host::None, _) => {}
            (Host::Name(name), Some(hosts)) => hosts.push(Text::new(name).folded()),
            (Host::Name(_) | Host::Unknown, hosts) => *hosts = None,
        }
    }

    /// Numbers, branches and the like have no host; an address has one, and so
    /// may the name of a repository.
    fn of_operands(&mut self, line: &CommandLine<'_>) {
        let named = match line.subcommand.as_slice() {
            // Free text, or words that lead nowhere.
            []
            | ["api" | "search" | "alias" | "config" | "extension" | "help" | "completion", ..]
            | ["repo", "gitignore" | "license", ..] => return,
            ["repo", ..] | ["label", "clone"] => 1,
            ["issue", "transfer"] => 2,
            _ => 0,
        };
        for (at, word) in line.operands.iter().enumerate() {
            self.add(if at < named { repository(word).1 } else { split(word) });
        }
    }
}

/// Whether a program of jq has the word `env` or `$ENV`; `.env` is a member of
/// what GitHub answers.
fn reads_environment(program: &[u8]) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut before: &[u8] = b"";
    program.chunk_by(|left, right| part(left) == part(right)).any(|word| {
        let member = before.ends_with(b".") && !before.ends_with(b"..");
        before = word;
        !member && matches!(word, b"env" | b"ENV")
    })
}

/// Commands that do something without another one beneath them.
const ALONE: [&str; 6] = ["api", "browse", "completion", "help", "status", "version"];

/// Whether it only prints help.
pub(crate) fn only_helps(line: &CommandLine<'_>) -> bool {
    let group = match line.subcommand.as_slice() {
        [] => true,
        [only] => !ALONE.contains(only),
        _ => false,
    };
    group && line.operands.is_empty() || options::surely(line, &["--help"])
}

fn one(word: impl Into<Vec<u8>>) -> Value {
    Value::Texts(vec![Text::new(word.into())])
}

/// What `gh api` is asked for.
struct Asked {
    said: Option<Vec<u8>>,
    endpoint: Option<Vec<u8>>,
    body: bool,
}

impl Asked {
    fn of(line: &CommandLine<'_>) -> Asked {
        let said = options::values(line, &["--method"]).last().map(<[u8]>::to_ascii_uppercase);
        let fields = options::any(line, &FIELDS);
        let body = fields || options::any(line, &["--input"]);
        let endpoint = line.operands.first().and_then(|word| path(split(word).path));
        Asked { said, endpoint, body }
    }

    fn method(&self) -> Vec<u8> {
        match &self.said {
            Some(said) => said.clone(),
            None if self.body || self.endpoint.as_deref() == Some(b"graphql") => b"POST".to_vec(),
            None => b"GET".to_vec(),
        }
    }

    fn operation(&self, line: &CommandLine<'_>) -> Value {
        let queries = FIELDS.map(|option| {
            (option, options::values(line, std::slice::from_ref(&option)).collect::<Vec<_>>())
        });
        let mut found = Vec::new();
        let mut any = false;
        for (option, fields) in queries {
            for field in fields {
                let Some(query) = field.strip_prefix(b"query=") else { continue };
                any = true;
                // `--field` reads files, and makes numbers and booleans of words.
                if option == "--field" && query.starts_with(b"@") {
                    return Value::Unknown;
                }
                match operations(query) {
                    Some(words) => found.extend(words),
                    None => return Value::Unknown,
                }
            }
        }
        if !any || options::any(line, &["--input"]) {
            return Value::Unknown;
        }
        Value::Texts(found.into_iter().map(Text::new).collect())
    }
}
