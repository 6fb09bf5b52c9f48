//! Attacks on a server from within its tools: tables of what an attacker leaves
//! in the workspace and calls, and a world in which every harm would be seen.
//!
//! - `definitions` the tools that are called
//! - `table`    the rows, from `tests/attacks/*.toml`
//! - `world`    a server, what it protects, and what must not be reached
//! - `recorder` who listens where nobody may call
//! - `harm`     what an attack has done

pub mod definitions;
mod harm;
mod recorder;
pub mod stopper;
mod table;
mod world;

pub use self::harm::{Harm, Secrets};
pub use self::table::{Group, Row, Table};
pub use self::world::{Mode, World, modes};
