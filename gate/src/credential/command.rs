//! A credential that a command prints, kept as long as it is good.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{CredentialError, LONGEST, Secret};

/// It has to print within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to run: in a group of its own, with nothing in its environment but a PATH,
/// standard input empty, and its output read as far as `longest`.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// More output than this is an error.
    pub longest: usize,
}

/// A command that runs: what it prints, where it ended with 0; else why it did not, in
/// words that have nothing of its output. Dropped, it is ended with its whole group.
pub type Running<'a> =
    Pin<Box<dyn Future<Output = Result<Zeroizing<Vec<u8>>, String>> + Send + 'a>>;

/// Runs commands: the server's own, since it waits for all children at one place.
pub trait Run: Send + Sync + 'static {
    /// Runs it to its end.
    fn run<'a>(&'a self, task: Task<'a>) -> Running<'a>;
}

/// What commands printed.
#[derive(Default)]
pub(super) struct Printed {
    by_words: Mutex<HashMap<Vec<String>, Place>>,
}

// Whoever holds it runs the command; the others wait for what it prints.
type Place = Arc<tokio::sync::Mutex<Option<Kept>>>;

struct Kept {
    until: Instant,
    secret: Secret,
}

impl fmt::Debug for Printed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Printed")
    }
}

impl Printed {
    /// What it printed, if that is still good; else it is run, once for all who wait.
    pub(super) async fn get(
        &self,
        runner: &dyn Run,
        words: &[String],
        ttl: Duration,
    ) -> Result<Secret, CredentialError> {
        let place = {
            let mut all = self.by_words.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(words.to_vec()).or_default())
        };
        let mut kept = place.lock().await;
        if let Some(found) = kept.as_ref().filter(|found| found.until > Instant::now()) {
            return Ok(found.secret.clone());
        }
        // What is too old is gone, whether or not there will be another.
        *kept = None;
        let error = |why: String| CredentialError::Command {
            program: words.first().cloned().unwrap_or_default(),
            why,
        };
        let begun = Instant::now();
        let task = Task { words, longest: LONGEST };
        let printed = match timeout(PATIENCE, runner.run(task)).await {
            Ok(Ok(printed)) => printed,
            Ok(Err(why)) => return Err(error(why)),
            Err(_elapsed) => return Err(error("it takes longer than 10 seconds".to_owned())),
        };
        let secret = Secret::new(printed);
        if secret.expose().is_empty() {
            return Err(error("it printed nothing".to_owned()));
        }
        // From its start: when it looked is when the time began to run.
        *kept = Some(Kept { until: begun + ttl, secret: secret.clone() });
        Ok(secret)
    }
}
