//! Where secrets are, and keeping them.
//!
//! Owns: reading a credential when it is needed, how it is added, and how long what a
//! command printed is kept. A value is wiped when it is dropped, is never shown, and
//! is in no error. Must not: start a process itself; whoever reaps children does that.

mod add;
mod command;
mod file;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderMap;
use tool_policy::definition::gate::{Credential, Scheme};
use zeroize::Zeroizing;

pub use self::command::{Run, Running, Task};
use crate::missing::Told;
use crate::redact::Live;

/// A value may be this long.
pub const LONGEST: usize = 16 * 1024;

/// A credential's value: not shown by anything, wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// What was read, without the ends of lines after it.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Secret {
        let mut bytes = bytes;
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        Secret(bytes)
    }

    /// The value, to be sent or looked for and for nothing else.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

/// Reads credentials when they are needed.
pub struct Keeper {
    environment: HashMap<String, Secret>,
    runner: Option<Arc<dyn Run>>,
    printed: command::Printed,
    warned: file::Warned,
    /// Those that a host wanted and that were not there.
    pub(crate) missing: Told,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keeper")
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::new(HashMap::new(), None)
    }
}

impl Keeper {
    /// With these values for `env:NAME`, which the server took from its environment
    /// at its start, and this way to run commands.
    pub fn new(environment: HashMap<String, Secret>, runner: Option<Arc<dyn Run>>) -> Keeper {
        Keeper {
            environment,
            runner,
            printed: command::Printed::default(),
            warned: file::Warned::default(),
            missing: Told::default(),
        }
    }

    /// With the values of this process's environment as it is now. Which of them no
    /// tool may inherit is for whoever makes tools' environments to heed.
    pub fn of_process(runner: Option<Arc<dyn Run>>) -> Keeper {
        let named = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            let value = Zeroizing::new(value.into_encoded_bytes());
            Some((name.into_string().ok()?, Secret::new(value)))
        };
        Keeper::new(std::env::vars_os().filter_map(named).collect(), runner)
    }

    /// The value; `None` where there is nothing at that place.
    pub async fn get(&self, credential: &Credential) -> Result<Option<Secret>, CredentialError> {
        match credential {
            Credential::File(path) => file::read(path, &self.warned),
            Credential::Env(name) => Ok(self.environment.get(name).cloned()),
            Credential::Command { words, ttl } => {
                let runner = self.runner.as_ref().ok_or_else(|| CredentialError::Command {
                    program: words.first().cloned().unwrap_or_default(),
                    why: "no commands are run here".to_owned(),
                })?;
                self.printed.get(runner.as_ref(), words, *ttl).await.map(Some)
            }
        }
    }

    /// Adds it to the headers of a request, and gives it; nothing, where there is none. From
    /// then on it is taken out of the output, where any is.
    pub(crate) async fn add(
        &self,
        credential: &Credential,
        scheme: &Scheme,
        headers: &mut HeaderMap,
        redact: Option<&Live>,
    ) -> Result<Option<Secret>, CredentialError> {
        let Some(secret) = self.get(credential).await?.filter(|it| !it.expose().is_empty()) else {
            return Ok(None);
        };
        self.missing.found(&credential.name());
        let unusable = |why| CredentialError::Unusable { name: credential.name(), why };
        if let Some(Err(_more)) = redact.map(|live| live.learn(&secret)) {
            return Err(unusable("there were more values in this call than can be redacted"));
        }
        add::to(headers, scheme, &secret).map_err(unusable)?;
        Ok(Some(secret))
    }
}

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("the credential {name} cannot be read: {why}: tell who runs the broker")]
    Unreadable {
        /// Where it is.
        name: String,
        /// What the kernel says.
        why: String,
    },
    /// The value cannot be sent.
    #[error("the credential {name} cannot be sent: {why}: tell who runs the broker")]
    Unusable {
        /// Where it is.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The command failed.
    #[error("the credential of {program} is not there: {why}: tell who runs the broker")]
    Command {
        /// The program, without its arguments.
        program: String,
        /// What went wrong.
        why: String,
    },
}
