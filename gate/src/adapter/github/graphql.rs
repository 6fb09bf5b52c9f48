//! A GraphQL request: its body, and what rules hear of it.
//!
//! Owns: which members a body may have, and its facts. Must not: send the body that
//! came; `Asked::body` is written from what was understood.

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};
use tool_policy::facts::{Text, Value};

use super::document::{self, DocumentError, Operation};
use super::json;
use super::reach::ABOUT_NONE;

/// A body of GraphQL is read whole; a longer one is refused.
pub const LIMIT: usize = 256 * 1024;

/// Why a body is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is not JSON, or may be read in two ways.
    #[error("the body is no JSON, or has a member twice")]
    Json,
    /// Several requests in one, or none.
    #[error("the body has to be one GraphQL request: {{\"query\": …, \"variables\": …}}")]
    NotOne,
    /// A member that is not known here.
    #[error("the member {0:?} of a GraphQL request does not pass")]
    Member(String),
    /// The document.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The operation that is meant.
    pub operation: Operation,
    variables: Map<String, Json>,
}

/// Reads the body of a request.
pub fn read(body: &[u8]) -> Result<Asked, BodyError> {
    let Json::Object(members) = json::read(body).ok_or(BodyError::Json)? else {
        return Err(BodyError::NotOne);
    };
    let (mut query, mut name, mut variables) = (None, None, Map::new());
    for (member, value) in members {
        match (member.as_str(), value) {
            ("query", Json::String(text)) => query = Some(text),
            ("operationName", Json::String(text)) if !text.is_empty() => name = Some(text),
            ("variables", Json::Object(all)) => variables = all,
            ("operationName" | "variables", Json::Null) => {}
            // Among them those that name a document which only the host has.
            _ => return Err(BodyError::Member(member)),
        }
    }
    let query = query.ok_or(BodyError::NotOne)?;
    let mut operation = document::read(&query, name.as_deref(), &variables)?;
    if crate::weaken::is("gate-graphql") {
        (operation.text, operation.name) = (query, name);
    }
    Ok(Asked { operation, variables })
}

impl Asked {
    /// The body to send.
    pub fn body(&self) -> Vec<u8> {
        let mut members = Map::new();
        members.insert("query".to_owned(), self.operation.text.clone().into());
        if !self.variables.is_empty() {
            members.insert("variables".to_owned(), Json::Object(self.variables.clone()));
        }
        if let Some(name) = &self.operation.name {
            members.insert("operationName".to_owned(), name.clone().into());
        }
        Json::Object(members).to_string().into_bytes()
    }

    /// `query` or `mutation`.
    pub fn kind(&self) -> &'static str {
        if self.operation.mutation { "mutation" } else { "query" }
    }

    /// The names of the fields at its top, each once.
    pub fn fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.operation.fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The repositories that it names by owner and name; not known where it may
    /// mean others, or lead from them to others.
    pub fn repositories(&self) -> Value {
        if !self.operation.stays {
            return Value::Unknown;
        }
        let names = self.operation.fields.iter().map(|field| match field.name.as_str() {
            name if ABOUT_NONE.contains(&name) => Some(None),
            "viewer" if !self.operation.mutation => Some(None),
            "repository" if !self.operation.mutation => {
                let arguments = field.arguments.as_ref()?;
                let part = |name| arguments.get(name).and_then(Json::as_str);
                Some(Some(format!("{}/{}", part("owner")?, part("name")?)))
            }
            _ => None,
        });
        let names = names.collect::<Option<Vec<_>>>();
        names.map_or(Value::Unknown, |names| texts(names.into_iter().flatten(), true))
    }

    /// The events of reviews that it hands in.
    pub fn events(&self) -> Value {
        let mut found = Vec::new();
        for field in &self.operation.fields {
            let Some(arguments) = &field.arguments else { return Value::Unknown };
            let Some(input) = arguments.get("input").and_then(Json::as_object) else { continue };
            match input.get("event") {
                None | Some(Json::Null) => {}
                Some(Json::String(event)) => found.push(event.clone()),
                Some(_) => return Value::Unknown,
            }
        }
        texts(found, false)
    }

    /// One line for people: the operation with all that it is given, there and in its
    /// variables. What is left out is told, with a digest: an answer is for the whole.
    pub fn shown(&self, host: &str) -> String {
        let fields = short(&self.fields().join(", "));
        let given = Json::Object(self.variables.clone()).to_string();
        let (text, given) = (short(&self.operation.text), short(&given));
        format!("{} {fields} at {host}: {text}, with {given}", self.kind())
    }
}

/// As much of a document and of its variables as an approver sees.
const SHOWN: usize = 400;

fn short(text: &str) -> String {
    let mut shown: String = text.chars().flat_map(char::escape_default).take(SHOWN + 1).collect();
    if shown.len() > SHOWN {
        shown.truncate(SHOWN);
        let digest = Sha256::digest(text);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        shown.push_str(&format!("… ({} bytes in all, SHA-256 {digest})", text.len()));
    }
    shown
}

/// Values of a fact; repositories are the same in small and capital letters.
pub(super) fn texts(words: impl IntoIterator<Item = String>, folded: bool) -> Value {
    let text = |word: String| {
        let text = Text::new(word.into_bytes());
        if folded { text.folded() } else { text }
    };
    Value::Texts(words.into_iter().map(text).collect())
}
