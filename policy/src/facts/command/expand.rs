//! Words with what is expanded in them, and redirections.
//!
//! Owns: where a word ends, quotes, expansions, the commands within them,
//! heredocs. Must not: work out what an expansion gives; it is anything.

use super::cursor::{Cursor, is_meta};
use super::found::{Sure, Unclear};
use super::parse::{Dialect, Heredoc, Parser, line};
use super::word::Word;

impl Parser<'_, '_> {
    /// Passes blanks, and a comment.
    pub(super) fn blanks(&mut self) {
        while matches!(self.cursor.peek(), Some(b' ' | b'\t')) {
            self.cursor.next();
        }
        if self.cursor.peek() == Some(b'#') {
            let mut ahead = self.cursor;
            while !matches!(ahead.raw(), None | Some(b'\n')) {
                self.cursor = ahead;
            }
        }
    }

    /// Passes newlines too, and the heredocs that begin there.
    pub(super) fn newlines(&mut self) -> Sure<()> {
        loop {
            self.blanks();
            if self.cursor.peek() != Some(b'\n') {
                return Ok(());
            }
            self.cursor.next();
            if self.waiting {
                return Err(Unclear);
            }
            for heredoc in std::mem::take(&mut self.heredocs) {
                self.heredoc(&heredoc)?;
            }
        }
    }

    /// A word; there must be one.
    pub(super) fn word(&mut self) -> Sure<Word> {
        let mut word = Word::default();
        let mut empty = true;
        while let Some(byte) = self.cursor.peek() {
            let substitutes = matches!(byte, b'<' | b'>') && self.cursor.second() == Some(b'(');
            if is_meta(byte) && !substitutes {
                break;
            }
            // `2<(…)`: a number before a redirection, or a word.
            if substitutes && word.is_number() {
                return Err(Unclear);
            }
            empty = false;
            self.cursor.next();
            match byte {
                b'<' | b'>' => {
                    self.cursor.next();
                    self.commands(b")")?;
                    word.any(true);
                }
                b'\\' => word.quoted(self.cursor.raw().ok_or(Unclear)?),
                b'\'' => self.single(&mut word)?,
                b'"' => self.double(&mut word)?,
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backquoted(&mut word, false)?,
                byte => word.plain(byte),
            }
        }
        if empty { Err(Unclear) } else { Ok(word) }
    }

    fn single(&mut self, word: &mut Word) -> Sure<()> {
        word.quote();
        loop {
            match self.cursor.raw().ok_or(Unclear)? {
                b'\'' => return Ok(()),
                b'\n' if self.waits() => return Err(Unclear),
                byte => word.quoted(byte),
            }
        }
    }

    fn double(&mut self, word: &mut Word) -> Sure<()> {
        word.quote();
        loop {
            match self.cursor.next().ok_or(Unclear)? {
                b'"' => return Ok(()),
                b'\\' => match self.cursor.raw().ok_or(Unclear)? {
                    byte @ (b'"' | b'\\' | b'$' | b'`') => word.quoted(byte),
                    byte => {
                        word.quoted(b'\\');
                        word.quoted(byte);
                    }
                },
                b'$' => self.dollar(word, true)?,
                b'`' => self.backquoted(word, true)?,
                b'\n' if self.waits() => return Err(Unclear),
                byte => word.quoted(byte),
            }
        }
    }

    /// The text of a heredoc begins at a newline that is no part of a word.
    fn waits(&self) -> bool {
        self.waiting || !self.heredocs.is_empty()
    }

    /// What stands behind `$`.
    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Sure<()> {
        match self.cursor.peek() {
            Some(b'(') => {
                let arithmetic = self.cursor.second() == Some(b'(');
                self.cursor.next();
                match arithmetic {
                    true => {
                        self.cursor.next();
                        self.nested(Self::arithmetic)?;
                    }
                    false => self.commands(b")")?,
                }
                word.any(quoted);
            }
            Some(b'{') => {
                self.cursor.next();
                let all = self.nested(|parser| parser.parameter(quoted))?;
                word.any(quoted && !all);
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                while matches!(
                    self.cursor.peek(),
                    Some(b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
                ) {
                    self.cursor.next();
                }
                word.any(quoted);
            }
            Some(b'0'..=b'9' | b'*' | b'@' | b'#' | b'?' | b'$' | b'!' | b'-') => {
                let all = self.cursor.next() == Some(b'@');
                word.any(quoted && !all);
            }
            Some(b'\'') if !quoted => {
                self.cursor.next();
                self.escaped(word)?;
            }
            // Translated, or a dollar.
            Some(b'"') if !quoted => word.any(true),
            // Arithmetic of old.
            Some(b'[') => return Err(Unclear),
            _ => word.quoted(b'$'),
        }
        Ok(())
    }

    /// `$(…)`, `<(…)`: the commands up to the bracket.
    fn commands(&mut self, end: &[u8]) -> Sure<()> {
        self.found.substitution = true;
        let waiting = self.waits();
        let outer = (std::mem::take(&mut self.heredocs), self.waiting);
        self.waiting = waiting;
        self.nested(|parser| {
            parser.list(&[end])?;
            let closed = parser.cursor.eat(end) && parser.heredocs.is_empty();
            if closed { Ok(()) } else { Err(Unclear) }
        })?;
        (self.heredocs, self.waiting) = outer;
        Ok(())
    }

    /// Between backquotes a backslash quotes these, and all of it is a line of its own.
    fn backquoted(&mut self, word: &mut Word, quoted: bool) -> Sure<()> {
        let mut inner = Vec::new();
        loop {
            match self.cursor.raw().ok_or(Unclear)? {
                b'`' => break,
                b'\\' => match self.cursor.raw().ok_or(Unclear)? {
                    byte @ (b'`' | b'\\' | b'$') => inner.push(byte),
                    // Shells differ.
                    b'"' if quoted => return Err(Unclear),
                    byte => inner.extend([b'\\', byte]),
                },
                b'\n' if self.waits() => return Err(Unclear),
                byte => inner.push(byte),
            }
        }
        self.found.substitution = true;
        line(self.found, &inner, self.dialect)?;
        word.any(quoted);
        Ok(())
    }

    /// `${…}`, behind its bracket: commands may be anywhere in it. Whether it may be several
    /// words even in quotes.
    fn parameter(&mut self, quoted: bool) -> Sure<bool> {
        let mut first = self.cursor.next().ok_or(Unclear)?;
        // `${ command; }` and `${|command; }`.
        if !(first.is_ascii_alphanumeric() || b"_#!?@*$-".contains(&first)) {
            return Err(Unclear);
        }
        let named = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        match self.cursor.peek().filter(named) {
            Some(byte) if first == b'#' => first = byte,
            // `${!name}`: what the variable holds is a name, and may have a subscript.
            Some(_) if first == b'!' => return Err(Unclear),
            _ => {}
        }
        if first.is_ascii_alphanumeric() || first == b'_' {
            while self
                .cursor
                .peek()
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                self.cursor.next();
            }
        }
        let (mut word, mut all) = (Word::default(), first == b'@');
        loop {
            match self.cursor.next().ok_or(Unclear)? {
                b'}' => return Ok(all),
                // It expands what the variable holds.
                b'@' if self.cursor.eat(b"P}") => return Err(Unclear),
                b'@' => all = true,
                b'\\' => drop(self.cursor.raw().ok_or(Unclear)?),
                b'\'' if quoted => return Err(Unclear),
                b'\'' => self.single(&mut word)?,
                // Within quotes shells differ in what a quote ends.
                b'"' if quoted => return Err(Unclear),
                b'"' => self.double(&mut word)?,
                b'$' => self.dollar(&mut word, quoted)?,
                b'`' => self.backquoted(&mut word, quoted)?,
                b'<' | b'>' if self.cursor.peek() == Some(b'(') => return Err(Unclear),
                b'\n' if self.waits() => return Err(Unclear),
                _ => {}
            }
        }
    }

    /// `$((…))`, behind both brackets.
    fn arithmetic(&mut self) -> Sure<()> {
        let mut word = Word::default();
        let mut depth = 0_usize;
        loop {
            match self.cursor.next().ok_or(Unclear)? {
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                // Else it was no arithmetic, but a subshell.
                b')' if self.cursor.eat(b")") => return Ok(()),
                b')' | b'\'' | b'"' | b'\\' | b';' | b'#' | b'\n' => return Err(Unclear),
                b'$' => self.dollar(&mut word, true)?,
                b'`' => self.backquoted(&mut word, true)?,
                _ => {}
            }
        }
    }

    /// `$'…'`, behind its quote: bash's own.
    fn escaped(&mut self, word: &mut Word) -> Sure<()> {
        if self.dialect == Dialect::Posix {
            // Others have a dollar there, and no backslash in it.
            word.any(true);
        }
        loop {
            let byte = match self.cursor.raw().ok_or(Unclear)? {
                b'\'' => return Ok(()),
                b'\n' if self.waits() => return Err(Unclear),
                b'\\' if self.dialect == Dialect::Posix => return Err(Unclear),
                b'\\' => self.escape()?,
                byte => byte,
            };
            word.quoted(byte);
        }
    }

    fn escape(&mut self) -> Sure<u8> {
        Ok(match self.cursor.raw().ok_or(Unclear)? {
            b'a' => 0x07,
            b'b' => 0x08,
            b'e' | b'E' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            byte @ (b'\\' | b'\'' | b'"' | b'?') => byte,
            b'x' => self.digits(0, 16, 2)?,
            byte @ b'0'..=b'7' => self.digits(u32::from(byte - b'0'), 8, 2)?,
            // Characters by number, control characters, and what has no meaning.
            _ => return Err(Unclear),
        })
    }

    /// A byte by its number. A NUL would end the word.
    fn digits(&mut self, mut number: u32, base: u32, most: usize) -> Sure<u8> {
        let mut count = 0;
        while count < most {
            let mut ahead: Cursor<'_> = self.cursor;
            let Some(digit) = ahead.raw().and_then(|byte| char::from(byte).to_digit(base)) else {
                break;
            };
            self.cursor = ahead;
            number = number * base + digit;
            count += 1;
        }
        u8::try_from(number).ok().filter(|byte| *byte != 0).ok_or(Unclear)
    }

    /// A number before a redirection; `{name}` there is one to bash alone.
    pub(super) fn is_number(&mut self, word: &Word) -> Sure<bool> {
        let redirects = matches!(self.cursor.peek(), Some(b'<' | b'>'));
        match word.written().as_slice() {
            [b'{', .., b'}'] if redirects => Err(Unclear),
            _ => Ok(redirects && word.is_number()),
        }
    }

    /// Redirections behind a compound command.
    pub(super) fn redirections(&mut self) -> Sure<()> {
        loop {
            self.blanks();
            let number = matches!(self.cursor.peek(), Some(b'0'..=b'9'));
            let both = self.cursor.peek() == Some(b'&') && self.cursor.second() == Some(b'>');
            if number && !self.word()?.is_number() {
                return Err(Unclear);
            }
            match self.cursor.peek() {
                Some(b'<' | b'>') => self.redirection()?,
                Some(b'&') if both => self.redirection()?,
                _ if number => return Err(Unclear),
                _ => return Ok(()),
            }
        }
    }

    /// An operator, and what it is followed by.
    pub(super) fn redirection(&mut self) -> Sure<()> {
        const OPERATORS: [&[u8]; 12] =
            [b"&>>", b"&>", b"<<<", b"<<-", b"<<", b"<&", b"<>", b"<", b">>", b">|", b">&", b">"];
        let operator = OPERATORS.into_iter().find(|one| self.cursor.eat(one)).ok_or(Unclear)?;
        self.blanks();
        if matches!(operator, b"<<" | b"<<-") {
            return self.heredoc_begins(operator == b"<<-");
        }
        let target = self.word()?;
        match operator {
            b"<" => self.found.read(target)?,
            b"<>" => {
                self.found.read(target.clone())?;
                self.found.write(target)?;
            }
            b"<<<" => {}
            b"<&" | b">&" => {
                let bytes = target.fixed();
                let number =
                    bytes.as_deref().map(|bytes| bytes.strip_suffix(b"-").unwrap_or(bytes));
                if !number.is_some_and(|number| number.iter().all(u8::is_ascii_digit)) {
                    match operator {
                        b"<&" => self.found.read(target)?,
                        _ => self.found.write(target)?,
                    }
                }
            }
            _ => {
                // To another shell than bash it is `&`, then `>`, then a command.
                if operator.starts_with(b"&") && self.dialect == Dialect::Posix {
                    return Err(Unclear);
                }
                self.found.write(target)?;
            }
        }
        Ok(())
    }

    fn heredoc_begins(&mut self, tabs: bool) -> Sure<()> {
        let before = self.cursor;
        let word = self.word()?;
        let mut ahead = before;
        let mut quoted = false;
        let (mut left, mut right) = (ahead.peek(), self.cursor);
        right.peek();
        // Any quote in it: the text is meant as it stands.
        while left.is_some() && !ahead.is_as_far_as(right) {
            quoted |= matches!(left, Some(b'\'' | b'"' | b'\\'));
            ahead.next();
            left = ahead.peek();
        }
        if word.is_any() {
            return Err(Unclear);
        }
        self.heredocs.push(Heredoc { end: word.written(), tabs, quoted });
        Ok(())
    }

    /// The text of a heredoc, up to its end.
    fn heredoc(&mut self, heredoc: &Heredoc) -> Sure<()> {
        let mut text = Vec::new();
        loop {
            // Without its end it goes on to the end of the line, or is an error.
            let line = self.cursor.line().ok_or(Unclear)?;
            let tabs = if heredoc.tabs {
                line.iter().take_while(|byte| **byte == b'\t').count()
            } else {
                0
            };
            let line = line.get(tabs..).unwrap_or_default();
            if line == heredoc.end {
                break;
            }
            // Which lines are one, before the end is looked for: shells differ.
            if !heredoc.quoted && line.ends_with(b"\\") {
                return Err(Unclear);
            }
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        if heredoc.quoted { Ok(()) } else { self.expanded(&text) }
    }

    /// A text in which commands may be substituted.
    fn expanded(&mut self, text: &[u8]) -> Sure<()> {
        let mut word = Word::default();
        let (cursor, dialect) = (Cursor::new(text), self.dialect);
        let mut parser =
            Parser { cursor, found: self.found, dialect, heredocs: Vec::new(), waiting: false };
        while let Some(byte) = parser.cursor.next() {
            match byte {
                b'\\' => drop(parser.cursor.raw()),
                b'$' => parser.dollar(&mut word, true)?,
                b'`' => parser.backquoted(&mut word, true)?,
                _ => {}
            }
        }
        Ok(())
    }
}
