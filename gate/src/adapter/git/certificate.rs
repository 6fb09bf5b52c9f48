//! The certificate of a signed push, which names the refs in place of the commands.
//!
//! Owns: reading one that can be read in one way only. Whether its signature is good
//! is for the host to say.

use super::commands::{Command, Wrong, command_of};
use super::name::Format;

/// A certificate as it comes, line by line.
#[derive(Debug, Default)]
pub(super) struct Certificate {
    part: Part,
    commands: Vec<Vec<u8>>,
    /// The words of `push -o` that are signed.
    pub(super) options: Vec<Vec<u8>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    First,
    Head,
    Commands,
    Signature,
}

/// What a certificate begins with.
const FIRST: &[u8] = b"certificate version 0.1";

/// Stands before a word of `push -o`.
const OPTION: &[u8] = b"push-option ";

/// What looks like a signature.
const BEGIN: &[u8] = b"-----BEGIN ";

/// What is one, to git.
const SIGNATURES: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
];

impl Certificate {
    /// Takes one line; `true` where it was the last.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<bool, Wrong> {
        // One line of the certificate in each of the wire: else where one ends is a
        // matter of opinion.
        let line = line.strip_suffix(b"\n").ok_or(Wrong::Certificate)?;
        if line.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return Err(Wrong::Certificate);
        }
        let begins = line.starts_with(BEGIN);
        match self.part {
            Part::First if line == FIRST => self.part = Part::Head,
            Part::First => return Err(Wrong::Certificate),
            Part::Head if line.is_empty() => self.part = Part::Commands,
            Part::Head if begins => return Err(Wrong::Certificate),
            Part::Head => {
                self.options.extend(line.strip_prefix(OPTION).map(<[u8]>::to_vec));
            }
            Part::Commands if SIGNATURES.contains(&line) => self.part = Part::Signature,
            Part::Commands => self.commands.push(line.to_vec()),
            // Servers take the last beginning for the signature's.
            Part::Signature if begins => return Err(Wrong::Certificate),
            Part::Signature if line == b"push-cert-end" => return Ok(true),
            Part::Signature => {}
        }
        match line == b"push-cert-end" {
            true => Err(Wrong::Certificate),
            false => Ok(false),
        }
    }

    /// The commands in it.
    pub(super) fn commands(&self, format: Format) -> Result<Vec<Command>, Wrong> {
        self.commands.iter().map(|line| command_of(line, format)).collect()
    }
}
