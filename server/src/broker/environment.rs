//! The environment of a tool, built from nothing.
//!
//! In this order, a later one replacing an earlier one of the same name: the
//! fixed PATH, the tool's HOME and TMPDIR; what the definition takes from the server;
//! what it takes from the caller, who may also say that it has none; what it sets; the four TOOL_* variables of a
//! wrapper.
//!
//! Must not: let a name through that nobody listed.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;
use tool_policy::NamePattern;
use tool_protocol::Text;

use crate::os::weaken;
use crate::registry::Tool;

/// What environments are made from.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The setting env.path.
    pub(crate) path: String,
    /// The server's own environment, as it was at the start.
    pub(crate) own: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What differs from call to call.
#[derive(Debug)]
pub(crate) struct Of<'a> {
    /// The definition.
    pub(crate) tool: &'a Tool,
    /// HOME.
    pub(crate) home: &'a [u8],
    /// TMPDIR, of a tool that is confined.
    pub(crate) temporary: Option<&'a [u8]>,
    /// What the caller offers, `NAME=value`; `NAME` alone is one that it has not.
    pub(crate) offered: &'a [Text],
    /// The directory's name, for a wrapper.
    pub(crate) cwd: &'a [u8],
    /// The arguments, for a wrapper.
    pub(crate) args: &'a [Text],
}

impl Environment {
    /// `NAME=value` strings, the caller's in the caller's order.
    pub(crate) fn build(&self, of: &Of<'_>) -> Vec<CString> {
        let mut variables = Variables::default();
        variables.set(b"PATH", self.path.as_bytes());
        variables.set(b"HOME", of.home);
        if let Some(temporary) = of.temporary {
            variables.set(b"TMPDIR", temporary);
        }
        for (name, value) in &self.own {
            if matches(&of.tool.env.inherit, name) || weaken::is("credential-env") {
                variables.set(name, value);
            }
        }
        let earlier = variables.list.len();
        for line in of.offered {
            let mut parts = line.as_bytes().splitn(2, |byte| *byte == b'=');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next());
            if !name.is_empty() && (takes(of.tool, name) || weaken::is("env")) {
                variables.offer(name, value, earlier);
            }
        }
        for (name, value) in &of.tool.env.set {
            variables.set(name.as_bytes(), value.as_bytes());
        }
        if of.tool.wrapper.is_some() {
            variables.set(b"TOOL_NAME", of.tool.name.as_bytes());
            variables.set(b"TOOL_BINARY", of.tool.binary.as_os_str().as_encoded_bytes());
            variables.set(b"TOOL_CWD", of.cwd);
            variables.set(b"TOOL_ARGS", &arguments_as_json(of.args));
        }
        variables.finish()
    }
}

/// Whether a definition takes a variable of that name from the caller.
pub(crate) fn takes(tool: &Tool, name: &[u8]) -> bool {
    matches(&tool.env.forward, name)
}

fn matches(patterns: &[NamePattern], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| pattern.matches(OsStr::from_bytes(name)))
}

/// The arguments as the original gave them: a JSON array; one that is not UTF-8
/// as on the wire.
fn arguments_as_json(args: &[Text]) -> Vec<u8> {
    let values: Vec<Value> =
        args.iter().map(|text| serde_json::to_value(text).unwrap_or(Value::Null)).collect();
    serde_json::to_vec(&values).unwrap_or_default()
}

#[derive(Default)]
struct Variables {
    /// None: it was there, and is not to be.
    list: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    places: HashMap<Vec<u8>, usize>,
}

impl Variables {
    fn set(&mut self, name: &[u8], value: &[u8]) {
        let known = self.places.get(name).and_then(|place| self.list.get_mut(*place));
        match known {
            Some((_, old)) => *old = Some(value.to_vec()),
            None => {
                self.places.insert(name.to_vec(), self.list.len());
                self.list.push((name.to_vec(), Some(value.to_vec())));
            }
        }
    }

    /// As the caller has it, in the caller's order. Of two of one name the first
    /// counts, as for getenv: what stands before `earlier` is from elsewhere.
    fn offer(&mut self, name: &[u8], value: Option<&[u8]>, earlier: usize) {
        if let Some(place) = self.places.get(name) {
            if *place >= earlier {
                return;
            }
            if let Some((_, old)) = self.list.get_mut(*place) {
                *old = None;
            }
        }
        self.places.insert(name.to_vec(), self.list.len());
        self.list.push((name.to_vec(), value.map(<[u8]>::to_vec)));
    }

    fn finish(self) -> Vec<CString> {
        let join = |(mut name, value): (Vec<u8>, Option<Vec<u8>>)| {
            name.push(b'=');
            name.extend_from_slice(&value?);
            // No NUL can be here: Text, the own environment and definitions
            // have none.
            CString::new(name).ok()
        };
        self.list.into_iter().filter_map(join).collect()
    }
}
