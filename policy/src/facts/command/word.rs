//! A word of a shell, as far as it is known before the shell runs.
//!
//! Owns: which of its bytes are meant as they stand, and what else a shell makes
//! of it: a pattern for files, a home directory, several words. Must not: expand
//! anything.

use crate::facts::Text;

/// How a byte of a word was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// As it is: a shell may see a meaning in it.
    Plain,
    /// In quotes, or behind a backslash.
    Quoted,
    /// It stands for anything: an expansion.
    Any,
}

/// One word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    bytes: Vec<(u8, How)>,
    /// It may become several words, or none.
    split: bool,
    /// It stands for what lies beneath it.
    beneath: bool,
    /// Where its first quote is.
    quote: Option<usize>,
}

impl Word {
    /// A word that is meant as it stands.
    pub(super) fn literal(bytes: &[u8]) -> Word {
        let quoted = bytes.iter().map(|byte| (*byte, How::Quoted));
        Word { bytes: quoted.collect(), ..Word::default() }
    }

    /// Any word at all, or several, or none.
    pub(super) fn anything() -> Word {
        let mut word = Word::default();
        word.any(false);
        word
    }

    /// What lies beneath this one.
    pub(super) fn beneath(mut self) -> Word {
        self.beneath = true;
        self
    }

    pub(super) fn plain(&mut self, byte: u8) {
        self.bytes.push((byte, How::Plain));
    }

    pub(super) fn quoted(&mut self, byte: u8) {
        self.bytes.push((byte, How::Quoted));
    }

    /// A quote is here, which may hold nothing.
    pub(super) fn quote(&mut self) {
        self.quote = self.quote.or(Some(self.bytes.len()));
    }

    /// What an expansion leaves; outside of quotes it is split.
    pub(super) fn any(&mut self, quoted: bool) {
        self.split |= !quoted;
        self.bytes.push((b'*', How::Any));
    }

    /// It is meant as it stands: no shell makes anything else of it.
    pub(super) fn is_fixed(&self) -> bool {
        !self.split && !self.beneath && !self.is_any() && !self.is_tilde() && !self.is_pattern()
    }

    /// Some of it comes from an expansion, or all.
    pub(super) fn is_any(&self) -> bool {
        self.split || self.is_braced() || self.bytes.iter().any(|(_, how)| *how == How::Any)
    }

    /// It begins with a home directory.
    fn is_tilde(&self) -> bool {
        self.bytes.first() == Some(&(b'~', How::Plain))
    }

    /// It may be files that it is a pattern for.
    fn is_pattern(&self) -> bool {
        let special = |(byte, how): &(u8, How)| *how == How::Plain && matches!(byte, b'*' | b'?');
        self.bytes.iter().any(special) || self.class().is_some()
    }

    /// A part of it is a pattern that `..` may be a name for.
    fn is_dotted(&self) -> bool {
        let bytes = self.bytes();
        let mut parts = bytes.split(|byte| *byte == b'/');
        self.is_pattern() && parts.any(|part| part.starts_with(b".") && part.contains(&b'*'))
    }

    /// Where `[…]` in it begins and ends.
    fn class(&self) -> Option<(usize, usize)> {
        let find = |wanted: u8| move |one: &(u8, How)| *one == (wanted, How::Plain);
        let open = self.bytes.iter().position(find(b'['))?;
        let close = self.bytes.iter().rposition(find(b']'))?;
        (open < close).then_some((open, close))
    }

    /// `{a,b}` and `{1..9}`, which some shells take for several words.
    fn is_braced(&self) -> bool {
        let plain = |wanted: u8| self.bytes.contains(&(wanted, How::Plain));
        let range = || self.bytes.windows(2).any(|two| two == [(b'.', How::Plain); 2]);
        plain(b'{') && plain(b'}') && (plain(b',') || range())
    }

    /// Its bytes; each `*` of an open one may stand for anything.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes.len());
        let class = self.class();
        for (at, (byte, how)) in self.bytes.iter().enumerate() {
            match class {
                Some((open, _)) if at == open => all.push(b'*'),
                Some((open, close)) if at > open && at <= close => {}
                _ if *how == How::Plain && *byte == b'?' => all.push(b'*'),
                _ => all.push(*byte),
            }
        }
        if self.is_braced() || self.split { b"*".to_vec() } else { all }
    }

    /// Its bytes, without their quotes.
    pub(super) fn written(&self) -> Vec<u8> {
        self.bytes.iter().map(|(byte, _)| *byte).collect()
    }

    /// Its bytes, where it is fixed.
    pub(super) fn fixed(&self) -> Option<Vec<u8>> {
        self.is_fixed().then(|| self.bytes())
    }

    /// Its bytes where its last part is meant as it stands, as that of a program's path.
    pub(super) fn program(&self) -> Option<Vec<u8>> {
        let homely = self.is_tilde() && self.bytes.contains(&(b'/', How::Plain));
        let known = !self.split && !self.beneath && !self.is_any() && !self.is_pattern();
        (known && (homely || !self.is_tilde())).then(|| self.bytes())
    }

    /// What it names as a path; `moved`: the line goes to other directories.
    pub(super) fn path(&self, moved: bool) -> Text<'static> {
        let bytes = self.bytes();
        let relative = moved && bytes.first() != Some(&b'/');
        let text = Text::new(bytes);
        if relative || self.is_tilde() {
            return text.or(*b"*").open();
        }
        match (self.is_any() || self.is_dotted(), self.is_pattern()) {
            (true, _) => text.open(),
            (false, true) => text.files(),
            (false, false) => text,
        }
    }

    /// All its bytes are digits, as those before `>`.
    pub(super) fn is_number(&self) -> bool {
        let digit = |(byte, how): &(u8, How)| *how == How::Plain && byte.is_ascii_digit();
        !self.bytes.is_empty() && self.quote.is_none() && self.bytes.iter().all(digit)
    }

    /// The name before `=` of an assignment, and whether it is `+=`.
    pub(super) fn assigned(&self) -> Option<(Vec<u8>, bool)> {
        let end = self.bytes.iter().position(|one| *one == (b'=', How::Plain))?;
        let before = self.bytes.get(..end)?;
        let (adds, name) = match before.split_last() {
            Some((&(b'+', How::Plain), name)) => (true, name),
            _ => (false, before),
        };
        let plain = name.iter().all(|(_, how)| *how == How::Plain);
        let name: Vec<u8> = name.iter().map(|(byte, _)| *byte).collect();
        let bare = self.quote.is_none_or(|quote| quote > end);
        (plain && bare && is_name(&name)).then_some((name, adds))
    }

    /// Begins with a byte that may make an option of it.
    pub(super) fn may_be_option(&self) -> bool {
        self.split || self.bytes().first().is_none_or(|byte| matches!(byte, b'-' | b'*'))
    }

    /// Holds these bytes, or may.
    pub(super) fn may_hold(&self, part: &[u8]) -> bool {
        let bytes = self.bytes();
        part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
    }
}

/// Whether a variable or a function may be called so.
pub(super) fn is_name(name: &[u8]) -> bool {
    let rest = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.first().is_some_and(|byte| !byte.is_ascii_digit()) && name.iter().all(rest)
}

/// Words as one text, with one blank between them.
pub(super) fn joined(name: &[u8], rest: &[Word]) -> Text<'static> {
    let (mut text, mut other) = (name.to_vec(), name.to_vec());
    let (mut open, mut home) = (false, false);
    for word in rest {
        let bytes = if word.beneath { b"*".to_vec() } else { word.bytes() };
        text.push(b' ');
        text.extend_from_slice(&bytes);
        other.push(b' ');
        other.extend_from_slice(if word.is_tilde() { b"*" } else { &bytes });
        open |= !word.is_fixed();
        home |= word.is_tilde();
    }
    let text = Text::new(text);
    let text = if home { text.or(other) } else { text };
    if open { text.open() } else { text }
}
