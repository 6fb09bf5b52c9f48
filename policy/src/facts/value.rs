//! What a fact is known to be.

use std::borrow::Cow;
use std::sync::Arc;

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// It is so, or not.
    Flag(bool),
    /// Each of these; none where the call has nothing of the kind.
    Texts(Vec<Text<'static>>),
    /// It cannot be known.
    Unknown,
}

impl Value {
    /// For people: `true`, the words separated by commas, or `unknown`.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Value::Flag(holds) => holds.to_string().into_bytes(),
            Value::Texts(texts) => texts.iter().map(Text::bytes).collect::<Vec<_>>().join(&b','),
            Value::Unknown => b"unknown".to_vec(),
        }
    }

    /// There is nothing of the kind.
    pub fn is_nothing(&self) -> bool {
        match self {
            Value::Flag(holds) => !holds,
            Value::Texts(texts) => texts.is_empty(),
            Value::Unknown => false,
        }
    }
}

/// A word, and what else it may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    bytes: Cow<'a, [u8]>,
    others: Vec<Vec<u8>>,
    open: bool,
    files: bool,
    folded: bool,
}

impl<'a> Text<'a> {
    /// A word that is called by nothing else.
    pub fn new(bytes: impl Into<Cow<'a, [u8]>>) -> Text<'a> {
        Text { bytes: bytes.into(), others: Vec::new(), open: false, files: false, folded: false }
    }

    /// It has this other name too.
    #[must_use]
    pub fn or(mut self, other: impl Into<Vec<u8>>) -> Text<'a> {
        let other = other.into();
        if *self.bytes != *other && !self.others.contains(&other) {
            self.others.push(other);
        }
        self
    }

    /// Its `*` stand for whatever is there.
    #[must_use]
    pub fn open(mut self) -> Text<'a> {
        self.open = true;
        self
    }

    /// It is a pattern for files: each of its `*` stands for a part of one name.
    #[must_use]
    pub fn files(mut self) -> Text<'a> {
        self.files = true;
        self.open()
    }

    /// Small and capital letters are the same in it.
    #[must_use]
    pub fn folded(mut self) -> Text<'a> {
        self.folded = true;
        self
    }

    /// The name to show.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it stands for more than one word.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether it stands for more than one, each of them a file beneath the same directory.
    pub fn is_files(&self) -> bool {
        self.files
    }

    /// Whether letters of both sizes are the same.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// Everything that it is called, the name to show first.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&*self.bytes).chain(self.others.iter().map(Vec::as_slice))
    }
}

/// A fact's name and its value.
type Known = (&'static str, Value);

/// What a module knows of a call: the name of a fact and its value. A copy is the same
/// memory, and what several have in common is there once: a push has ten thousand refs.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    common: Arc<[Known]>,
    own: Arc<[Known]>,
}

impl PartialEq for Facts {
    fn eq(&self, other: &Facts) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Facts {}

impl Facts {
    /// What is known of something, by the names that rules use.
    pub fn new(known: Vec<(&'static str, Value)>) -> Facts {
        Facts { common: Arc::default(), own: known.into() }
    }

    /// The same, and these beside.
    #[must_use]
    pub fn with(&self, known: Vec<(&'static str, Value)>) -> Facts {
        if self.common.is_empty() {
            return Facts { common: Arc::clone(&self.own), own: known.into() };
        }
        let all = self.common.iter().chain(self.own.iter()).cloned();
        Facts { common: all.collect(), own: known.into() }
    }

    /// The value of one; where the module says nothing of it, it is not known.
    pub fn get(&self, name: &str) -> &Value {
        let found = self.iter().find(|(known, _)| *known == name);
        found.map_or(&Value::Unknown, |(_, value)| value)
    }

    /// The same facts, none of them known.
    pub(crate) fn unknown(self) -> Facts {
        self.iter().map(|(name, _)| (name, Value::Unknown)).collect()
    }

    /// All, in the order of the module's list.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.common.iter().chain(self.own.iter()).map(|(name, value)| (*name, value))
    }
}

impl FromIterator<(&'static str, Value)> for Facts {
    fn from_iter<I: IntoIterator<Item = (&'static str, Value)>>(facts: I) -> Facts {
        Facts::new(facts.into_iter().collect())
    }
}
