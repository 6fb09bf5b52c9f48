//! By what callers come: the sockets, and by HTTP the names of tokens.
//!
//! Owns: a number for each, which is its own as long as the server runs, and what is wrong
//! with the files of tokens, for people. Must not: know a token.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Callers(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    /// By their numbers; and whether they may still come.
    names: Vec<(Arc<str>, bool)>,
    troubles: BTreeMap<String, String>,
}

impl Callers {
    /// The sockets, in the order of their numbers.
    pub(crate) fn of(sockets: impl Iterator<Item = String>) -> Callers {
        let names = sockets.map(|name| (name.into(), true)).collect();
        Callers(RwLock::new(State { names, troubles: BTreeMap::new() }))
    }

    /// The number of one who may come from now on: the one that it had, or the next.
    pub(crate) fn come(&self, name: &str) -> usize {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = state.names.iter().position(|(known, _)| **known == *name) {
            if let Some((_, present)) = state.names.get_mut(number) {
                *present = true;
            }
            return number;
        }
        state.names.push((name.into(), true));
        state.names.len() - 1
    }

    /// It may not any more.
    pub(crate) fn go(&self, number: usize) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, present)) = state.names.get_mut(number) {
            *present = false;
        }
    }

    /// What one is called.
    pub(crate) fn name(&self, number: usize) -> Option<Arc<str>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.names.get(number).map(|(name, _)| Arc::clone(name))
    }

    /// Those who may come now.
    pub(crate) fn present(&self) -> Vec<String> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let present = state.names.iter().filter(|(_, present)| *present);
        present.map(|(name, _)| name.to_string()).collect()
    }

    /// What is wrong with a file of tokens; none: nothing any more.
    pub(crate) fn trouble(&self, file: &Path, wrong: Option<String>) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let file = file.display().to_string();
        match wrong {
            Some(wrong) => drop(state.troubles.insert(file, wrong)),
            None => drop(state.troubles.remove(&file)),
        }
    }

    /// All that is wrong.
    pub(super) fn troubles(&self) -> Vec<String> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.troubles.values().cloned().collect()
    }
}
