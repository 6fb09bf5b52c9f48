//! What is taken from a message, before anybody looks at what it means.
//!
//! Owns: reading the target of a request one way only, the lists of headers, and
//! cleaning answers. What may be read two ways is refused, never repaired. Must not:
//! know adapters, connect, or decide.
//!
//! - `target`   host, port, path and query of a request
//! - `path`     a path in its normal form
//! - `headers`  which headers go on
//! - `answer`   what comes back

pub(crate) mod answer;
pub(crate) mod headers;
mod path;
pub(crate) mod target;
