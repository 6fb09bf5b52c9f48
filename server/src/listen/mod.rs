//! Sockets: from bytes to a call, and from its reply to bytes.
//!
//! Owns: the listening sockets, who may connect, frames, the limits in time of
//! a peer that is slow, what a connection may say when. Must not: decide
//! anything about a call; that is `broker`, below.
//!
//! - `socket`      a listening socket: made, found dead, removed
//! - `door`        takes connections; the calls that need no session
//! - `accept`      who may connect, and how many
//! - `arrange`     the descriptors of a request in their places
//! - `connection`  frames and descriptors on one connection
//! - `session`     what a connection says: calls, their control, operations
//! - `events`      what a call tells meanwhile, as messages
//! - `operation`   health, tools, status, reload, metrics
//! - `http`        the door for HTTP, on a thread of its own
//! - `mcp`         tools and files for clients of MCP
//! - `unread`      how many bytes of answers wait to be read
//! - `share`       what each of several clients has of something
//! - `proxy`       connections that belong to no call
//! - `scrape`      the figures over HTTP

mod accept;
mod arrange;
mod connection;
mod door;
mod events;
mod http;
mod mcp;
mod operation;
mod proxy;
mod scrape;
mod session;
mod share;
mod socket;
mod unread;

pub(crate) use accept::{Context, LEAST_DESCRIPTORS, Limits, Rules, Shared, gate_places, paid_for};
pub(crate) use door::Door;
pub(crate) use http::{
    HttpDoor, HttpError, OPERATOR_DESCRIPTORS, OperatorDoor, Serving, http_descriptors,
};
pub(crate) use mcp::serve_stdio;
pub(crate) use operation::Reload;
pub(crate) use proxy::{proxy_descriptors, proxy_places, serve_proxy};
pub(crate) use scrape::{DESCRIPTORS as SCRAPE_DESCRIPTORS, Scrape};
pub(crate) use socket::{Listening, Place, SocketError};
