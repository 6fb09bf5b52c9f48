//! From arguments to a command line.
//!
//! Owns: the walk over the arguments, as the tool's own parser makes it: which
//! words are options (`option`, with their values, `value`), commands, operands.
//! Must not: guess: what may mean two things is unread.

mod option;
mod value;

use super::{Command, CommandLine, Grammar, Style, Subcommands, Unread, Why};

impl Grammar {
    /// Reads a call's arguments, without the tool's name.
    pub fn read<'a>(&'a self, args: &[&'a [u8]]) -> CommandLine<'a> {
        let style = self.nodes.first().map_or(Style::CONVENTIONAL, |tool| tool.style);
        let mut reader = Reader {
            grammar: self,
            args,
            next: 0,
            node: 0,
            style,
            ended: style.raw,
            settled: false,
            line: CommandLine::default(),
        };
        reader.line.options.reserve(args.len());
        reader.line.operands.reserve(args.len());
        while let Some(word) = reader.take() {
            reader.word(word);
        }
        reader.line
    }
}

struct Reader<'a, 'w> {
    grammar: &'a Grammar,
    args: &'w [&'a [u8]],
    /// Which argument comes next.
    next: usize,
    /// The command so far, and how its arguments are read.
    node: u16,
    style: Style,
    /// No options any more.
    ended: bool,
    /// No command any more.
    settled: bool,
    line: CommandLine<'a>,
}

impl<'a> Reader<'a, '_> {
    fn take(&mut self) -> Option<&'a [u8]> {
        let word = self.args.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// The argument that is being read.
    fn here(&self) -> usize {
        self.next.saturating_sub(1)
    }

    fn word(&mut self, word: &'a [u8]) {
        let dashes = word.iter().take_while(|byte| **byte == b'-').count();
        if self.ended || dashes == 0 || word == b"-" {
            return self.operand(word);
        }
        if dashes == word.len() && (dashes == 2 || self.style.any_dashes) {
            self.line.dashes = Some(self.line.operands.len());
            self.ended = true;
            return;
        }
        if word == b"--end-of-options" && self.style.end_of_options {
            self.ended = true;
            return;
        }
        // An option says that the command's own way of being used is meant.
        self.settled |= self.style.subcommands == Subcommands::First;
        if self.style.any_dashes {
            self.dashed(word, dashes);
        } else if dashes >= 2 {
            self.long(word);
        } else {
            self.short(word);
        }
    }

    fn operand(&mut self, word: &'a [u8]) {
        if !self.settled && !self.grammar.names_beneath(self.node).is_empty() {
            if self.ended && !self.style.raw {
                // Tools differ in whether it may still be a command.
                if self.style.subcommands != Subcommands::First {
                    self.unread(word, Why::DashesBeforeCommand);
                }
            } else if let Some(found) = self.command(word) {
                match found {
                    Ok(node) => return self.enter(node),
                    Err(why) => self.unread(word, why),
                }
            } else if self.style.subcommands == Subcommands::Required {
                self.unread(word, Why::UnknownCommand);
            }
            self.settled = true;
        }
        self.ended |= self.style.operands_end_options;
        self.line.operands.push(word);
    }

    fn command(&self, word: &[u8]) -> Option<Result<u16, Why<'a>>> {
        if let Some(node) = self.grammar.child(self.node, word) {
            return Some(Ok(node));
        }
        if !self.style.command_abbreviations || word.is_empty() {
            return None;
        }
        let grammar = self.grammar;
        let begins = |text| grammar.text(text).as_bytes().starts_with(word);
        let names = grammar.names_beneath(self.node).iter();
        let names: Vec<_> = names.filter(|name| begins(name.text)).collect();
        let one = names.first()?.node;
        if names.iter().all(|name| name.node == one) {
            return Some(Ok(one));
        }
        let names = names.iter().map(|name| grammar.text(name.text));
        Some(Err(Why::Ambiguous(names.collect())))
    }

    fn enter(&mut self, node: u16) {
        let Some(entered) = self.grammar.node(node) else { return };
        self.line.subcommand.push(self.grammar.text(entered.name));
        self.node = node;
        self.style = entered.style;
        self.ended = self.style.raw;
    }

    fn here_command(&self) -> Command<'a> {
        Command { grammar: self.grammar, index: self.node }
    }

    /// Something that could not be read; the first is told.
    fn unread(&mut self, word: &[u8], why: Why<'a>) {
        let (argument, depth) = (self.here(), self.line.subcommand.len());
        let unread = || Unread { argument, word: word.to_vec(), why, depth };
        self.line.unread.get_or_insert_with(unread);
    }
}
