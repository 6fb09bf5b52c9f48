//! The `[signing]` table: commits and tags are signed without the tool having a
//! key.
//!
//! Owns: its members and their checks. Must not: read the key.

use super::credential;
use super::gate::Credential;
use super::read::{Entry, Source, Wrong, decision, string, table, unknown};
use crate::Decision;

/// `[signing]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// Its line in the definition.
    pub line: usize,
    /// An ssh private key: where it is.
    pub key: Credential,
    /// What happens to a signature that no rule is about.
    pub default: Decision,
}

/// Reads the table.
pub(super) fn read(entry: Entry<'_, '_>, source: Source<'_>) -> Result<Signing, Wrong> {
    let (mut key, mut default) = (None, Decision::Allow);
    for member in table(entry)? {
        match member.0.get_ref().as_ref() {
            "key" => {
                let wrong = |message| (member.1.span(), format!("key {message}"));
                key = Some(credential::read(string(member)?).map_err(wrong)?);
            }
            "default" => default = decision(member)?,
            _ => return Err(unknown(member.0, "[signing] ")),
        }
    }
    let span = entry.0.span();
    let line = source.line(&span);
    match key {
        Some(key) => Ok(Signing { line, key, default }),
        None => Err((span, "[signing] needs a key, as key = \"file:/run/secrets/key\"".to_owned())),
    }
}
