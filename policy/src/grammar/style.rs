//! In what tools differ when they read their arguments.
//!
//! Owns: the switches, and their values where a grammar does not say. Must not:
//! name a tool in code.

/// How the arguments of a command are read. A command has its parent's, unless
/// its own grammar says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// `-abc` is `-a -b -c`; the first that takes a value takes the rest.
    /// Without it a word with one dash is one option, as it stands.
    pub clusters: bool,
    /// `--forc` is `--force` where nothing else begins so.
    pub abbreviations: bool,
    /// `--name=value`.
    pub equals: bool,
    /// `-n=value`: the `=` is not part of the value.
    pub short_equals: bool,
    /// A flag may say its value, `--name=false`.
    pub flag_values: bool,
    /// A value may begin with a dash. Where not, a word with one is missing a value.
    pub dash_values: bool,
    /// `--end-of-options` does what it says.
    pub end_of_options: bool,
    /// However many dashes, `-name` is `--name`.
    pub any_dashes: bool,
    /// `inst` is `install` where no other command begins so.
    pub command_abbreviations: bool,
    /// Its options may stand with its commands' too. Not inherited.
    pub options_anywhere: bool,
    /// Everything after the first operand is an operand. Not inherited.
    pub operands_end_options: bool,
    /// Its arguments are operands, whatever they look like. Not inherited.
    pub raw: bool,
    /// What the first operand of a command with commands is. Not inherited.
    pub subcommands: Subcommands,
}

/// What the first operand of a command that has commands may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subcommands {
    /// One of them; anything else is not known.
    #[default]
    Required,
    /// One of them, or else an operand.
    Optional,
    /// Like `Optional`, but only as the first argument: an option before it says
    /// that there is none.
    First,
}

impl Style {
    /// What a grammar that says nothing has: the conventions of getopt.
    pub(super) const CONVENTIONAL: Self = Self {
        clusters: true,
        abbreviations: false,
        equals: true,
        short_equals: false,
        flag_values: false,
        dash_values: true,
        end_of_options: false,
        any_dashes: false,
        command_abbreviations: false,
        options_anywhere: false,
        operands_end_options: false,
        raw: false,
        subcommands: Subcommands::Required,
    };

    /// What its commands begin with.
    pub(super) fn inherited(self) -> Self {
        Self {
            options_anywhere: false,
            operands_end_options: false,
            raw: false,
            subcommands: Subcommands::Required,
            ..self
        }
    }

    /// The switch of this name in a grammar, where it is one that is on or off.
    pub(super) fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "clusters" => &mut self.clusters,
            "abbreviations" => &mut self.abbreviations,
            "equals" => &mut self.equals,
            "short_equals" => &mut self.short_equals,
            "flag_values" => &mut self.flag_values,
            "dash_values" => &mut self.dash_values,
            "end_of_options" => &mut self.end_of_options,
            "command_abbreviations" => &mut self.command_abbreviations,
            "options_anywhere" => &mut self.options_anywhere,
            "operands_end_options" => &mut self.operands_end_options,
            "raw" => &mut self.raw,
            _ => return None,
        })
    }
}

impl Subcommands {
    pub(super) fn parse(said: &str) -> Option<Self> {
        Some(match said {
            "required" => Self::Required,
            "optional" => Self::Optional,
            "first" => Self::First,
            _ => return None,
        })
    }
}
