//! A tool's own argument grammar, as data, and a command line as it reads it.
//!
//! Owns: which commands and options a tool has ([`Grammar`]), and what a command
//! line says by it ([`CommandLine`]): which command, which options with which
//! values, which operands. Must not: guess. What the grammar does not know is
//! told as [`Unread`], with a sentence for people. Nor know any tool: what
//! differs between tools is data ([`Style`]).
//!
//! | file | what |
//! | --- | --- |
//! | `load` | from TOML to a grammar, every error with its bytes |
//! | `notation` | how one option is written in a grammar |
//! | `build` | gathers names and options, and lays them out in few slices |
//! | `style` | in what tools differ |
//! | `table` | where a grammar keeps its names; looking them up |
//! | `lookup` | commands and options by name, for whoever writes about them |
//! | `read` | from arguments to a command line |
//! | `line` | the command line that was read |

mod build;
mod line;
mod load;
mod lookup;
mod notation;
mod read;
mod style;
mod table;

pub use line::{CommandLine, Given, Unread, Why};
pub use lookup::{Command, Opt, OptionId, Spelled};
pub use style::{Style, Subcommands};
pub use table::Takes;

use table::{Entry, Name, Node, Run, Spelling, Text};

/// What a tool takes for arguments.
///
/// A large one (git) has thousands of spellings, and every tool keeps its own
/// for as long as the server runs: so all text is in one string, and the rest in
/// a few slices of small records that are searched in place.
#[derive(Debug, PartialEq, Eq)]
pub struct Grammar {
    text: Box<str>,
    /// The tool itself is the first.
    nodes: Box<[Node]>,
    /// Names and aliases of commands; those beneath one node are a sorted run.
    names: Box<[Name]>,
    /// Runs of `spellings`, each sorted: a command's own, or a set that several share.
    tables: Box<[Run]>,
    /// Indices of `tables`: the sets that a command uses are a run.
    uses: Box<[u16]>,
    spellings: Box<[Spelling]>,
    options: Box<[Entry]>,
    /// What options may have for a value where that is a list.
    words: Box<[Text]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is kept for as long as the server runs, whose memory is counted.
    #[test]
    fn the_largest_grammar_is_small() {
        let text = include_str!("../../../tools.d/git/grammar.toml");
        let table = toml::de::DeTable::parse(text).unwrap();
        let Grammar { text, nodes, names, tables, uses, spellings, options, words } =
            Grammar::from_table(table.get_ref()).unwrap();
        assert!(nodes.len() > 200 && options.len() > 1_500, "{} {}", nodes.len(), options.len());
        let bytes = [
            text.len(),
            size_of_val(&*nodes),
            size_of_val(&*names),
            size_of_val(&*tables),
            size_of_val(&*uses),
            size_of_val(&*spellings),
            size_of_val(&*options),
            size_of_val(&*words),
        ];
        let bytes: usize = bytes.iter().sum();
        assert!(bytes < 160 * 1024, "{bytes}");
    }
}
