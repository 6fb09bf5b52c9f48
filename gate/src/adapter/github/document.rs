//! GraphQL documents: what the meant operation asks for.
//!
//! Owns: choosing the operation, its fields through fragments and aliases, what
//! they are given, and writing it down anew. What is sent is what is written here,
//! never the caller's text: comments, commas, block strings, other operations and
//! unused fragments are gone, so nobody reads anything else in it. Must not: guess.
//! What the parser does not take whole is refused.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use apollo_parser::cst::{
    CstNode as _, Definition, FragmentDefinition, OperationDefinition, Selection, SelectionSet,
    Value as Said,
};
use apollo_parser::{Lexer, Parser, SyntaxKind, SyntaxNode, TokenKind};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// More brackets in each other than anybody writes.
const DEPTH: usize = 64;

/// More words than anybody writes.
const TOKENS: usize = 32_768;

/// More fields at the top than anybody can look at, alike or not.
const FIELDS: usize = 256;

/// More fragments than anybody writes.
const FRAGMENTS: usize = 512;

/// So much may be filled in for variables in all, about as it lies in memory: a short
/// document can name a long variable ten thousand times.
const FILLED: usize = 8 << 20;

/// Why a document is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is not GraphQL, or longer or deeper than anybody writes.
    #[error("the GraphQL document is not understood at byte {0}: {1}")]
    Syntax(usize, String),
    /// It has definitions of types and the like.
    #[error("the GraphQL document may only have operations and fragments")]
    NotExecutable,
    /// No operation, or none of that name.
    #[error("the GraphQL document has no operation that is meant: see operationName")]
    NoOperation,
    /// Several may be meant.
    #[error("the GraphQL document has several operations: say which with operationName")]
    Ambiguous,
    /// Two definitions have one name.
    #[error("the GraphQL document defines {0} twice")]
    Twice(String),
    /// A fragment that is not there.
    #[error("the GraphQL document has no fragment {0}")]
    NoFragment(String),
    /// Nobody can decide on so many.
    #[error("the GraphQL operation has more than {FIELDS} fields at its top")]
    TooMany,
    /// The same for fragments.
    #[error("the GraphQL document has more than {FRAGMENTS} fragments")]
    Fragments,
    /// Neither a query nor a mutation.
    #[error("GraphQL subscriptions do not pass")]
    Subscription,
}

/// The operation that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// It is a mutation, not a query.
    pub mutation: bool,
    /// Its name.
    pub name: Option<String>,
    /// The fields at its top, by their true names, each once.
    pub fields: Vec<Field>,
    /// All that it asks for is of the repositories that it names at its top.
    pub stays: bool,
    /// The operation and its fragments, written anew.
    pub text: String,
}

/// A field at the top of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its true name, whatever its alias.
    pub name: String,
    /// What it is given, variables filled in; `None` where that is not known.
    pub arguments: Option<Map<String, Value>>,
}

impl Field {
    /// Of its name, and what it is given.
    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.name.as_bytes());
        // No name has a blank, and nothing given is not known.
        digest.update(b" ");
        if let Some(Ok(arguments)) = self.arguments.as_ref().map(serde_json::to_string) {
            digest.update(arguments.as_bytes());
        }
        digest.finalize().into()
    }
}

/// Reads a document: the operation of this name, or the only one.
pub fn read(
    text: &str,
    name: Option<&str>,
    variables: &Map<String, Value>,
) -> Result<Operation, DocumentError> {
    bounded(text)?;
    let tree = Parser::new(text).recursion_limit(DEPTH).token_limit(TOKENS).parse();
    if let Some(error) = tree.errors().next() {
        return Err(DocumentError::Syntax(error.index(), error.message().to_owned()));
    }
    let (mut operations, mut fragments) = (Vec::new(), BTreeMap::new());
    for definition in tree.document().definitions() {
        match definition {
            Definition::OperationDefinition(one) => operations.push(one),
            Definition::FragmentDefinition(one) => {
                let name = one.fragment_name().and_then(|name| name.name());
                let name = name.map(|name| name.text().to_string()).unwrap_or_default();
                if fragments.insert(name.clone(), one).is_some() {
                    return Err(DocumentError::Twice(name));
                }
                if fragments.len() > FRAGMENTS {
                    return Err(DocumentError::Fragments);
                }
            }
            _ => return Err(DocumentError::NotExecutable),
        }
    }
    let operation = choose(operations, name)?;
    let mutation = match operation.operation_type() {
        None => false,
        Some(kind) if kind.subscription_token().is_some() => {
            return Err(DocumentError::Subscription);
        }
        Some(kind) => kind.mutation_token().is_some(),
    };
    let used = used(&operation, &fragments)?;
    let given = Given::new(&operation, variables);
    let selection = operation.selection_set().ok_or(DocumentError::NoOperation)?;
    let stays = super::reach::stays(&selection, &fragments);
    let fields = collect(selection, &fragments, &given)?;
    if fields.is_empty() {
        return Err(DocumentError::NoOperation);
    }
    let mut text = String::new();
    write(operation.syntax(), &mut text);
    for fragment in used {
        write(fragment.syntax(), &mut text);
    }
    Ok(Operation { mutation, name: operation_name(&operation), fields, stays, text })
}

/// The parser goes down into brackets; how far is looked at before.
fn bounded(text: &str) -> Result<(), DocumentError> {
    let mut depth = 0usize;
    for (count, token) in Lexer::new(text).enumerate() {
        let token = token
            .map_err(|error| DocumentError::Syntax(error.index(), error.message().to_owned()))?;
        match token.kind() {
            TokenKind::LCurly | TokenKind::LParen | TokenKind::LBracket => depth += 1,
            TokenKind::RCurly | TokenKind::RParen | TokenKind::RBracket => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        if depth > DEPTH {
            return Err(DocumentError::Syntax(token.index(), "it is too deep".to_owned()));
        }
        if count > TOKENS {
            return Err(DocumentError::Syntax(token.index(), "it is too long".to_owned()));
        }
    }
    Ok(())
}

fn operation_name(operation: &OperationDefinition) -> Option<String> {
    operation.name().map(|name| name.text().to_string())
}

fn choose(
    operations: Vec<OperationDefinition>,
    wanted: Option<&str>,
) -> Result<OperationDefinition, DocumentError> {
    if crate::weaken::is("gate-graphql") {
        return operations.into_iter().next().ok_or(DocumentError::NoOperation);
    }
    let mut names: Vec<_> = operations.iter().map(operation_name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|two| two.first() == two.last()) {
        let name = twice.first().cloned().flatten();
        return Err(name.map_or(DocumentError::Ambiguous, DocumentError::Twice));
    }
    // One without a name stands alone.
    if operations.len() > 1 && names.contains(&None) {
        return Err(DocumentError::Ambiguous);
    }
    let several = operations.len() > 1;
    let found = match wanted {
        Some(wanted) => {
            operations.into_iter().find(|one| operation_name(one).as_deref() == Some(wanted))
        }
        None if several => return Err(DocumentError::Ambiguous),
        None => operations.into_iter().next(),
    };
    found.ok_or(DocumentError::NoOperation)
}

/// The fragments that the operation reaches, each once.
fn used<'a>(
    operation: &OperationDefinition,
    fragments: &'a BTreeMap<String, FragmentDefinition>,
) -> Result<Vec<&'a FragmentDefinition>, DocumentError> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    let mut next = vec![operation.syntax().clone()];
    while let Some(node) = next.pop() {
        for name in spreads(&node) {
            if names.contains(&name) {
                continue;
            }
            let fragment = fragments.get(&name);
            let fragment = fragment.ok_or_else(|| DocumentError::NoFragment(name.clone()))?;
            names.insert(name);
            next.push(fragment.syntax().clone());
            found.push(fragment);
        }
    }
    Ok(found)
}

/// The names of fragments that are spread somewhere in it.
fn spreads(node: &SyntaxNode) -> Vec<String> {
    let is_spread = |node: &SyntaxNode| node.kind() == SyntaxKind::FRAGMENT_SPREAD;
    let all = node.descendants().filter(is_spread);
    let name = |spread: SyntaxNode| {
        let name = spread.children().find(|node| node.kind() == SyntaxKind::FRAGMENT_NAME)?;
        Some(name.text().to_string().trim().to_owned())
    };
    all.filter_map(name).collect()
}

/// The fields of a selection, through fragments; directives hide none.
fn collect(
    selection: SelectionSet,
    fragments: &BTreeMap<String, FragmentDefinition>,
    given: &Given,
) -> Result<Vec<Field>, DocumentError> {
    let mut fields = Vec::new();
    let (mut count, mut kept) = (0_usize, BTreeSet::new());
    let mut seen = BTreeSet::new();
    // No recursion: a chain of fragments may be as long as the document.
    let mut next = vec![selection];
    while let Some(selection) = next.pop() {
        for one in selection.selections() {
            match one {
                Selection::Field(said) => {
                    let Some(name) = said.name() else { continue };
                    count += 1;
                    if count > FIELDS {
                        return Err(DocumentError::TooMany);
                    }
                    let field =
                        Field { name: name.text().to_string(), arguments: arguments(&said, given) };
                    // Each with each they would be compared a thousand times.
                    if kept.insert(field.digest()) {
                        fields.push(field);
                    }
                }
                Selection::InlineFragment(fragment) => next.extend(fragment.selection_set()),
                Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name().and_then(|name| name.name());
                    let name = name.map(|name| name.text().to_string()).unwrap_or_default();
                    let fragment = fragments.get(&name).and_then(FragmentDefinition::selection_set);
                    if seen.insert(name) {
                        next.extend(fragment);
                    }
                }
            }
        }
    }
    Ok(fields)
}

/// What a field is given; `None` where that is not known.
fn arguments(field: &apollo_parser::cst::Field, given: &Given) -> Option<Map<String, Value>> {
    let all = field.arguments().into_iter().flat_map(|all| all.arguments());
    let all = all.map(|argument| {
        let name = argument.name()?.text().to_string();
        Some((name, value(&argument.value()?, given)?))
    });
    once(all)
}

/// Members by name; `None` where one is not known or stands there twice: of two the
/// other side may take the other one.
fn once(members: impl Iterator<Item = Option<(String, Value)>>) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for member in members {
        let (name, value) = member?;
        if all.insert(name, value).is_some() {
            return None;
        }
    }
    Some(all)
}

/// What variables are: what was sent, else their defaults.
struct Given {
    all: Map<String, Value>,
    /// What may still be filled in.
    room: Cell<usize>,
}

impl Given {
    fn new(operation: &OperationDefinition, sent: &Map<String, Value>) -> Given {
        let none = Given { all: Map::new(), room: Cell::new(0) };
        let mut all = sent.clone();
        let defined = operation.variable_definitions().into_iter();
        for definition in defined.flat_map(|all| all.variable_definitions()) {
            let name = definition.variable().and_then(|variable| variable.name());
            let Some(name) = name.map(|name| name.text().to_string()) else { continue };
            let default = definition.default_value().and_then(|default| default.value());
            if let Some(default) = default.and_then(|default| value(&default, &none)) {
                all.entry(name).or_insert(default);
            }
        }
        Given { all, room: Cell::new(FILLED) }
    }

    /// The variable's value; `None` where it has none, or too much was filled in.
    fn get(&self, name: &str) -> Option<Value> {
        let found = self.all.get(name)?;
        let left = self.room.get();
        self.room.set(0);
        self.room.set(left.checked_sub(weight(found, left)?)?);
        Some(found.clone())
    }
}

/// About how many bytes a value is in memory; `None` where that is more than `most`.
fn weight(value: &Value, most: usize) -> Option<usize> {
    let mut open = vec![value];
    let mut sum = 0_usize;
    while let Some(value) = open.pop() {
        sum = sum.saturating_add(size_of::<Value>());
        match value {
            Value::String(text) => sum = sum.saturating_add(text.len()),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                sum = members.keys().fold(sum, |sum, name| sum.saturating_add(name.len()));
                open.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if sum > most {
            return None;
        }
    }
    Some(sum)
}

/// A value as JSON; `None` where a variable of it is not known.
fn value(said: &Said, given: &Given) -> Option<Value> {
    Some(match said {
        Said::Variable(variable) => {
            return given.get(&variable.name()?.text());
        }
        Said::StringValue(text) => String::from(text).into(),
        Said::EnumValue(word) => word.name()?.text().to_string().into(),
        Said::BooleanValue(flag) => flag.true_token().is_some().into(),
        Said::NullValue(_) => Value::Null,
        Said::IntValue(_) | Said::FloatValue(_) => {
            serde_json::from_str(said.syntax().text().to_string().trim()).ok()?
        }
        Said::ListValue(list) => {
            return list
                .values()
                .map(|one| value(&one, given))
                .collect::<Option<Vec<_>>>()
                .map(Value::Array);
        }
        Said::ObjectValue(object) => {
            let members = object.object_fields().map(|member| {
                let name = member.name()?.text().to_string();
                Some((name, value(&member.value()?, given)?))
            });
            return once(members).map(Value::Object);
        }
    })
}

/// Its words with one blank between them, strings in their plain form.
fn write(node: &SyntaxNode, text: &mut String) {
    for element in node.descendants_with_tokens() {
        let Some(token) = element.into_token() else { continue };
        let word = match token.kind() {
            SyntaxKind::WHITESPACE | SyntaxKind::COMMENT | SyntaxKind::COMMA => continue,
            SyntaxKind::STRING => quoted(&token),
            _ => token.text().to_owned(),
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
    }
}

/// The string that stands here, with the escapes that JSON and GraphQL share.
fn quoted(token: &apollo_parser::SyntaxToken) -> String {
    let node = token.parent().and_then(apollo_parser::cst::StringValue::cast);
    let plain = node.map(|node| String::from(&node)).unwrap_or_default();
    Value::String(plain).to_string()
}
