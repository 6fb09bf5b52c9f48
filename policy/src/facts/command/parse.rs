//! The grammar of a shell's command line: lists, pipelines, compound commands.
//!
//! Owns: which simple commands and redirections a line has. Must not: guess.
//! What two shells read differently, and what is an error in one of them, is
//! [`Unclear`]. Nor go deeper than a bound: lines are a caller's.

use super::cursor::Cursor;
use super::found::{Found, Sure, Unclear};
use super::word::{Word, is_name};

/// Which shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `sh`, which may be any of them.
    Posix,
    /// bash.
    Bash,
}

/// A heredoc whose text begins at the next newline.
#[derive(Debug)]
pub(super) struct Heredoc {
    /// The line that ends it.
    pub(super) end: Vec<u8>,
    /// Tabs before its lines do not count.
    pub(super) tabs: bool,
    /// Its text is meant as it stands.
    pub(super) quoted: bool,
}

/// Reads one line, and tells what it finds.
#[derive(Debug)]
pub(super) struct Parser<'a, 'f> {
    pub(super) cursor: Cursor<'a>,
    pub(super) found: &'f mut Found,
    pub(super) dialect: Dialect,
    pub(super) heredocs: Vec<Heredoc>,
    /// Heredocs around this command wait for a newline.
    pub(super) waiting: bool,
}

/// Words that end a list, or begin what is none here.
const ENDS: [&[u8]; 7] = [b"then", b"elif", b"else", b"fi", b"do", b"done", b"esac"];

/// Reads all of `line`.
pub(super) fn line(found: &mut Found, line: &[u8], dialect: Dialect) -> Sure<()> {
    if line.contains(&0) {
        return Err(Unclear);
    }
    found.deeper(|found| {
        let mut parser = Parser {
            cursor: Cursor::new(line),
            found,
            dialect,
            heredocs: Vec::new(),
            waiting: false,
        };
        parser.list(&[])?;
        // A heredoc without its text: shells make of it what they like.
        if parser.heredocs.is_empty() { Ok(()) } else { Err(Unclear) }
    })
}

impl Parser<'_, '_> {
    /// Commands up to one of `ends`, which stays; none of them: to the end of the line.
    pub(super) fn list(&mut self, ends: &[&[u8]]) -> Sure<usize> {
        let mut count = 0;
        loop {
            self.newlines()?;
            if self.is_at(ends) {
                return Ok(count);
            }
            self.found.chain |= count > 0;
            self.and_or()?;
            count += 1;
            self.blanks();
            match (self.cursor.peek(), self.cursor.second()) {
                (Some(b';'), Some(b';' | b'&')) if ends.contains(&b";;".as_slice()) => {}
                (Some(b';'), _) => {
                    self.cursor.next();
                    // `;` after `;`, or before anything but a command.
                    self.blanks();
                    if self.cursor.peek() == Some(b';') && !ends.contains(&b";;".as_slice()) {
                        return Err(Unclear);
                    }
                }
                (Some(b'&'), _) => {
                    self.cursor.next();
                    self.found.chain = true;
                    self.found.background = true;
                }
                (Some(b'\n'), _) => {}
                _ if self.is_at(ends) => {}
                _ => return Err(Unclear),
            }
        }
    }

    /// Whether one of these comes.
    fn is_at(&mut self, ends: &[&[u8]]) -> bool {
        match self.cursor.peek() {
            None => ends.is_empty(),
            Some(b')') => ends.contains(&b")".as_slice()),
            Some(b';') => {
                let two = matches!(self.cursor.second(), Some(b';' | b'&'));
                two && ends.contains(&b";;".as_slice())
            }
            Some(_) => self.cursor.plain_word().is_some_and(|word| ends.contains(&word.as_slice())),
        }
    }

    /// A list that must not be empty, and the word that ends it.
    fn body(&mut self, ends: &[&[u8]]) -> Sure<Vec<u8>> {
        if self.list(ends)? == 0 {
            return Err(Unclear);
        }
        let word = self.cursor.plain_word().ok_or(Unclear)?;
        if self.cursor.eat(&word) { Ok(word) } else { Err(Unclear) }
    }

    fn and_or(&mut self) -> Sure<()> {
        self.pipeline()?;
        loop {
            self.blanks();
            if !self.cursor.eat(b"&&") && !self.cursor.eat(b"||") {
                return Ok(());
            }
            self.found.chain = true;
            self.newlines()?;
            self.pipeline()?;
        }
    }

    fn pipeline(&mut self) -> Sure<()> {
        self.blanks();
        if self.cursor.plain_word().as_deref() == Some(b"!") {
            self.cursor.next();
            self.blanks();
        }
        self.command()?;
        loop {
            self.blanks();
            let pipe = self.cursor.peek() == Some(b'|') && self.cursor.second() != Some(b'|');
            if !pipe {
                return Ok(());
            }
            self.cursor.next();
            self.cursor.eat(b"&");
            self.found.pipe = true;
            self.newlines()?;
            self.command()?;
        }
    }

    fn command(&mut self) -> Sure<()> {
        self.blanks();
        if self.cursor.peek() == Some(b'(') {
            // `((`: arithmetic, or two subshells.
            if self.cursor.second() == Some(b'(') {
                return Err(Unclear);
            }
            self.cursor.next();
            self.nested(|parser| {
                let some = parser.list(&[b")"])? > 0;
                if some && parser.cursor.eat(b")") { Ok(()) } else { Err(Unclear) }
            })?;
            return self.redirections();
        }
        let Some(word) = self.cursor.plain_word() else { return self.simple() };
        let bash = self.dialect == Dialect::Bash;
        match word.as_slice() {
            // Programs, to others.
            b"select" | b"function" if !bash => Err(Unclear),
            b"{" => self.compound(&word, |parser| parser.body(&[b"}"]).map(drop)),
            b"if" => self.compound(&word, Self::branches),
            b"while" | b"until" => self.compound(&word, |parser| {
                parser.found.chain = true;
                parser.body(&[b"do"])?;
                parser.body(&[b"done"]).map(drop)
            }),
            b"for" | b"select" => self.compound(&word, Self::each),
            b"case" => self.compound(&word, Self::cases),
            b"function" => {
                self.cursor.eat(&word);
                self.blanks();
                self.word()?.fixed().ok_or(Unclear)?;
                self.blanks();
                if self.cursor.eat(b"(") {
                    self.blanks();
                    if !self.cursor.eat(b")") {
                        return Err(Unclear);
                    }
                }
                self.function()
            }
            b"}" | b"!" | b"coproc" => Err(Unclear),
            word if ENDS.contains(&word) => Err(Unclear),
            _ => self.simple(),
        }
    }

    fn compound(&mut self, word: &[u8], rest: impl Fn(&mut Self) -> Sure<()>) -> Sure<()> {
        self.cursor.eat(word);
        self.nested(rest)?;
        self.redirections()
    }

    /// The same one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Sure<T>) -> Sure<T> {
        self.found.enter()?;
        let read = read(self);
        self.found.leave();
        read
    }

    fn branches(&mut self) -> Sure<()> {
        self.found.chain = true;
        self.body(&[b"then"])?;
        loop {
            match self.body(&[b"elif", b"else", b"fi"])?.as_slice() {
                b"elif" => self.body(&[b"then"])?,
                b"else" => return self.body(&[b"fi"]).map(drop),
                _ => return Ok(()),
            };
        }
    }

    fn each(&mut self) -> Sure<()> {
        self.blanks();
        let name = self.word()?.fixed().ok_or(Unclear)?;
        if !is_name(&name) {
            return Err(Unclear);
        }
        self.found.variable(name)?;
        self.newlines()?;
        if self.cursor.plain_word().as_deref() == Some(b"in") {
            self.cursor.eat(b"in");
            self.blanks();
            while !matches!(self.cursor.peek(), None | Some(b'\n' | b';')) {
                self.word()?;
                self.blanks();
            }
        }
        self.cursor.eat(b";");
        self.newlines()?;
        if self.cursor.plain_word().as_deref() != Some(b"do") {
            return Err(Unclear);
        }
        self.cursor.eat(b"do");
        self.body(&[b"done"]).map(drop)
    }

    fn cases(&mut self) -> Sure<()> {
        self.blanks();
        self.word()?;
        self.newlines()?;
        if self.cursor.plain_word().as_deref() != Some(b"in") {
            return Err(Unclear);
        }
        self.cursor.eat(b"in");
        loop {
            self.newlines()?;
            if self.cursor.plain_word().as_deref() == Some(b"esac") {
                self.cursor.eat(b"esac");
                return Ok(());
            }
            self.cursor.eat(b"(");
            loop {
                self.blanks();
                self.word()?;
                self.blanks();
                if self.cursor.eat(b")") {
                    break;
                }
                if !self.cursor.eat(b"|") {
                    return Err(Unclear);
                }
            }
            self.list(&[b";;", b"esac"])?;
            let mut breaks = [b";;&".as_slice(), b";;", b";&"].into_iter();
            breaks.any(|one| self.cursor.eat(one));
        }
    }

    /// What stands behind `NAME()`.
    fn function(&mut self) -> Sure<()> {
        self.found.function = true;
        self.newlines()?;
        let compound = match self.cursor.plain_word().as_deref() {
            Some(b"{" | b"if" | b"while" | b"until" | b"for" | b"case") => true,
            _ => self.cursor.peek() == Some(b'('),
        };
        if compound { self.nested(Self::command) } else { Err(Unclear) }
    }

    fn simple(&mut self) -> Sure<()> {
        let mut words: Vec<Word> = Vec::new();
        let mut other = false;
        loop {
            self.blanks();
            match (self.cursor.peek(), self.cursor.second()) {
                (None | Some(b'\n' | b';' | b'|' | b')'), _) => break,
                (Some(b'&'), Some(b'>')) | (Some(b'<' | b'>'), _)
                    if self.cursor.second() != Some(b'(') =>
                {
                    self.redirection()?;
                    other = true;
                }
                (Some(b'&'), _) => break,
                (Some(b'('), _) => return self.definition(&words, other),
                _ => {
                    let word = self.word()?;
                    if self.is_number(&word)? {
                        self.redirection()?;
                        other = true;
                    } else if let Some((name, adds)) = word.assigned().filter(|_| words.is_empty())
                    {
                        // Another shell than bash takes `a+=b` for a program.
                        if adds && self.dialect == Dialect::Posix {
                            return Err(Unclear);
                        }
                        self.found.variable(name)?;
                        other = true;
                    } else {
                        words.push(word);
                    }
                }
            }
        }
        match words.is_empty() {
            true if other => Ok(()),
            true => Err(Unclear),
            false => self.found.run(&words, self.dialect),
        }
    }

    /// `NAME()`, or nothing that is understood.
    fn definition(&mut self, words: &[Word], other: bool) -> Sure<()> {
        let [name] = words else { return Err(Unclear) };
        name.fixed().ok_or(Unclear)?;
        self.cursor.next();
        self.blanks();
        if other || !self.cursor.eat(b")") {
            return Err(Unclear);
        }
        self.function()
    }
}
