//! The shipped rules on real command lines: tables in `tests/rules`, and what it
//! takes to run them.
//!
//! | module | what |
//! | --- | --- |
//! | [`table`] | the tables: an ordinary day, and what is refused |
//! | [`stand`] | a server with the shipped definition, one without its rules, and the tool itself |
//! | [`state`] | what is left of a directory and its repositories |
//! | [`stub`] | a server that gh, npm and curl speak to: canned answers, and what it saw |

pub mod stand;
pub mod state;
pub mod stub;
pub mod table;

pub use stand::{Stand, Way};
pub use stub::Seen;
pub use table::{Day, Refused};
