//! What a call's output is looked through for, as it becomes more: a credential that is
//! renewed while the call runs is taken out from the moment that it is used.
//!
//! Owns: the values of one call. Must not: forget one; the tool may have it still.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{TooMany, Values};
use crate::credential::Secret;

/// The values of a call.
pub struct Live {
    inner: Mutex<Inner>,
    /// How often there were more.
    generation: AtomicU64,
}

struct Inner {
    secrets: Vec<Secret>,
    values: Option<Arc<Values>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Live")
    }
}

impl Live {
    /// Those that are known when the call begins, and what they make.
    pub fn new(secrets: Vec<Secret>, values: Option<Arc<Values>>) -> Live {
        let inner = Mutex::new(Inner { secrets, values });
        Live { inner, generation: AtomicU64::new(0) }
    }

    /// To be called before anybody outside is told the value.
    pub fn learn(&self, secret: &Secret) -> Result<(), TooMany> {
        let mut inner = self.lock();
        if inner.secrets.iter().any(|known| known.expose() == secret.expose()) {
            return Ok(());
        }
        let all = inner.secrets.iter().chain([secret]).map(Secret::expose);
        let values = Values::new(all)?.map(Arc::new);
        inner.secrets.push(secret.clone());
        inner.values = values;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The values, where they are others than at that generation.
    pub(super) fn after(&self, seen: u64) -> Option<(u64, Option<Arc<Values>>)> {
        if self.generation.load(Ordering::Acquire) == seen {
            return None;
        }
        let inner = self.lock();
        Some((self.generation.load(Ordering::Acquire), inner.values.clone()))
    }

    /// The values as they are, and their generation.
    pub(super) fn now(&self) -> (u64, Option<Arc<Values>>) {
        let inner = self.lock();
        (self.generation.load(Ordering::Acquire), inner.values.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
