//! What stands, kept over a restart: a file that is replaced whole.
//!
//! Owns: its format. Must not: keep a question; whoever asked it is gone with the
//! server.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tool_protocol::Text;
use tracing::warn;

use super::Answer;
use super::question::{Digest, Site};
use super::state::{Grant, Word};
use tool_policy::Consent;

/// The longest that a standing approval may last: a clock that was set back does
/// not make it last longer.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    grants: Vec<KeptGrant>,
    words: Vec<KeptWord>,
}

/// Times are seconds since 1970.
#[derive(Serialize, Deserialize)]
struct KeptGrant {
    id: String,
    tool: String,
    rule: String,
    definition: String,
    repository: Text,
    /// Of a request: its gate. What was kept without stands for no request.
    #[serde(default)]
    gate: String,
    /// What was kept without stands for nobody.
    #[serde(default)]
    caller: String,
    by: u32,
    until: u64,
}

#[derive(Serialize, Deserialize)]
struct KeptWord {
    digest: String,
    id: String,
    by: u32,
    at: u64,
    /// Where the answer is no.
    reason: Option<String>,
    until: u64,
}

/// What the file says and is not over. A file that cannot be read grants nothing.
pub(super) fn load(file: &Path) -> (Vec<Grant>, Vec<Word>) {
    let kept: Kept = match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            warn!(file = %file.display(), %error, "cannot read the approvals that stand: none does");
            Kept::default()
        }),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                warn!(file = %file.display(), %error, "cannot read the approvals that stand: none does");
            }
            Kept::default()
        }
    };
    let grants = kept.grants.into_iter().filter_map(grant).collect();
    let words = kept.words.into_iter().filter_map(word).collect();
    (grants, words)
}

fn grant(kept: KeptGrant) -> Option<Grant> {
    let KeptGrant { id, tool, rule, definition, repository, gate, caller, by, until } = kept;
    let repository = repository.as_bytes().to_vec();
    let site = Site { tool, rule, definition, repository, by: gate, caller };
    Some(Grant { id, site, by, until: instant(until)? })
}

fn word(kept: KeptWord) -> Option<Word> {
    let KeptWord { digest, id, by, at, reason, until } = kept;
    let answer = match reason {
        Some(reason) => Answer::No { id, by, reason },
        None => {
            let at = UNIX_EPOCH + Duration::from_secs(at);
            Answer::Yes(Consent { id, by, at, standing: false })
        }
    };
    Some(Word { digest: unhex(&digest)?, answer, until: instant(until)? })
}

/// Writes what stands, whole or not at all.
pub(super) fn save(file: &Path, grants: &[Grant], words: &[Word]) -> io::Result<()> {
    let kept = Kept {
        grants: grants.iter().map(kept_grant).collect(),
        words: words.iter().map(kept_word).collect(),
    };
    let temporary = file.with_extension("new");
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    to.write_all(&serde_json::to_vec(&kept)?)?;
    to.sync_all()?;
    std::fs::rename(&temporary, file)?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn kept_grant(grant: &Grant) -> KeptGrant {
    let Site { tool, rule, definition, repository, by: gate, caller } = grant.site.clone();
    let repository = Text::new(repository).unwrap_or_default();
    let (id, by, until) = (grant.id.clone(), grant.by, seconds(grant.until));
    KeptGrant { id, tool, rule, definition, repository, gate, caller, by, until }
}

fn kept_word(word: &Word) -> KeptWord {
    let (digest, until) = (hex(word.digest), seconds(word.until));
    match &word.answer {
        Answer::Yes(consent) => {
            let at = consent.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let (id, by) = (consent.id.clone(), consent.by);
            KeptWord { digest, id, by, at, reason: None, until }
        }
        Answer::No { id, by, reason } => {
            let (id, by, reason) = (id.clone(), *by, Some(reason.clone()));
            KeptWord { digest, id, by, at: 0, reason, until }
        }
    }
}

/// What is left of it, by the clock on the wall.
fn instant(until: u64) -> Option<Instant> {
    let until = UNIX_EPOCH.checked_add(Duration::from_secs(until))?;
    let left = until.duration_since(SystemTime::now()).ok()?;
    (!left.is_zero()).then(|| Instant::now() + left.min(LONGEST))
}

fn seconds(until: Instant) -> u64 {
    let left = until.saturating_duration_since(Instant::now());
    let until = SystemTime::now() + left;
    until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn hex(digest: Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(Digest(digest))
}
