//! The gate: the only way out of a confined call.
//!
//! A tool holds no credential and has no network but this. It asks here, in plain
//! sight; what it asks is decided on by the rules of its definition, sent on over
//! TLS, and only then the credential is added. A grant lives as long as its call.
//!
//! - `door`        how a call finds its gate: address, secret, environment
//! - `grant`       what one call may do
//! - `judge`       who decides, and what it is shown
//! - `credential`  where secrets are, and keeping them
//! - `missing`     a host that wants a credential which is not there
//! - `upstream`    names to addresses, connections, TLS
//! - `serve`       the main path: one connection of a call, request by request
//! - `hygiene`     what is taken from a message before anybody looks at it
//! - `site`        what an adapter has: one request, who decides, the way on
//! - `refusal`, `body`  answers that say no; bodies, piece by piece
//! - `adapter`     who understands what is asked: git, github, npm, http
//! - `redact`      values of credentials, taken out of output
//! - `signing`     signatures over commits and tags, by a key that no tool has
//!
//! Must not: start processes but those of credentials, touch the workspace, or
//! know of calls more than their grant. Begin with `serve`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod adapter;
pub mod body;
pub mod credential;
pub mod door;
pub mod grant;
mod hygiene;
pub mod judge;
mod missing;
pub mod redact;
pub mod refusal;
pub mod serve;
pub mod signing;
pub mod site;
pub mod upstream;
pub mod weaken;

pub use door::Door;
pub use grant::Grant;
pub use judge::{Answer, Judge, Part, Request, Rest};
pub use refusal::Refusal;
pub use site::{Asked, Keeps, Onward, Redirects, Site, To};
