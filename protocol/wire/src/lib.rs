//! What client and server agree on to the byte: frames, limits, error codes,
//! and the little JSON that a client without an allocator needs.
//!
//! Owns: the layout of a frame, every limit of the wire, the one list of error
//! codes, a JSON writer and a bounded JSON reader over borrowed bytes.
//! Must not: do I/O, allocate, or depend on anything. Cargo unifies features
//! across a workspace, so whatever this crate pulls in, the no_std client would
//! get with `std` switched on (docs/decisions/0002-two-protocol-crates.md).
//!
//! The messages themselves, as serde types for the server, are in
//! `tool-protocol`, which re-exports this crate.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod base64;
pub mod code;
pub mod frame;
pub mod json;
pub mod limits;

pub use code::Code;

/// The version of the protocol, as `health` tells it. A server that answers
/// `{"op":"health"}` with `protocol` at least 1 knows every optional member
/// of docs/protocol.md; the seed's server does not answer it so.
pub const PROTOCOL: u32 = 1;
