//! What is taken out of a tool's output: the values of all credentials that its
//! definition names, as they are when the call begins. Others that are handed out later
//! the gate adds.
//!
//! Owns: reading them, and what they make, kept while they stay the same. Must not:
//! look at output.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tool_gate::credential::{Keeper, Secret};
use tool_gate::redact::{Live, Values};
use tool_gate::weaken;
use tool_protocol::{Code, Refusal};

use crate::exec::Plan;
use crate::registry::Tool;

/// What values were made into, by the tool.
type Kept = HashMap<String, (Vec<Secret>, Option<Arc<Values>>)>;

/// What is taken out of output.
pub(crate) struct Redact {
    keeper: Arc<Keeper>,
    kept: Mutex<Kept>,
}

impl fmt::Debug for Redact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Redact")
    }
}

impl Redact {
    /// With this keeper of credentials.
    pub(crate) fn new(keeper: Arc<Keeper>) -> Redact {
        Redact { keeper, kept: Mutex::default() }
    }

    /// What to look for in a call's output; nothing where its definition does not ask
    /// for it, or names no credential. One that cannot be read could be read a moment
    /// later, by the gate: then the call does not begin.
    pub(super) async fn values(&self, tool: &Tool) -> Result<Option<Arc<Live>>, Refusal> {
        let gates = tool.gates.iter().filter_map(|gate| gate.credential.as_ref());
        let key = tool.signing.iter().map(|signing| &signing.key);
        let named: Vec<_> = gates.chain(key).collect();
        if !tool.sandbox.redact || named.is_empty() || weaken::is("redact") {
            return Ok(None);
        }
        let mut secrets = Vec::new();
        for credential in named {
            match self.keeper.get(credential).await {
                Ok(secret) => secrets.extend(secret),
                Err(error) => return Err(unreadable(&error)),
            }
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, values)) = kept.get(&tool.name)
            && known.iter().map(Secret::expose).eq(secrets.iter().map(Secret::expose))
        {
            return Ok(Some(Arc::new(Live::new(secrets, values.clone()))));
        }
        let values = Values::new(secrets.iter().map(Secret::expose));
        let values = values.map_err(|error| unreadable(&error))?.map(Arc::new);
        kept.insert(tool.name.clone(), (secrets.clone(), values.clone()));
        Ok(Some(Arc::new(Live::new(secrets, values))))
    }
}

fn unreadable(error: &dyn fmt::Display) -> Refusal {
    let message = format!("its output cannot be redacted: {error}");
    Refusal::new(Code::StateUnavailable, message)
}

/// How a call begins: what was found out before, which may have to be waited for.
pub(super) enum Begins {
    /// At the door, where nothing is waited for: this is told of its end.
    Collected(u64),
    /// Attended to, without these in its output.
    Attended(Option<Arc<Live>>),
}

impl Begins {
    /// Whom to tell of its end.
    pub(super) fn apply(self, plan: &mut Plan) -> Option<u64> {
        match self {
            Begins::Collected(collector) => Some(collector),
            Begins::Attended(values) => {
                plan.redact = values;
                None
            }
        }
    }
}
