//! Names to addresses.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// What a resolver gives.
pub type Resolved<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Makes addresses of a name; asked at most once for each connection, and never dropped
/// before it has answered.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a name, those to be tried first at the front.
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a>;
}

/// The system's resolver, on a thread for blocking work until it has answered.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
