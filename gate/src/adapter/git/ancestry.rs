//! Whether a push drops commits: what a ref was does not lead to what it is to be.
//!
//! Owns: finding that out from the commits that the push itself brings, and where
//! those end from the host's own (`ask`). What is not known to be a fast-forward
//! counts as forced. Why so: docs/decisions/0013-force-by-ancestry.md.

use super::ask;
use super::commands::{Command, Push};
use super::name::{Format, Id};
use super::pack::{Commits, Reading, Walk};
use super::push::AT_ONCE;
use crate::refusal::Refusal;
use crate::site::Site;

use super::feed::Feed;

/// So much more of a pack is waited for before it is looked at again.
const PIECE: usize = 64 << 10;

/// So many questions go to the host for one push.
const QUESTIONS: usize = 16;

/// For each command, whether it may drop commits. Reads as much of the pack, which
/// begins at `start`, as it takes to know.
pub(super) async fn forced(
    site: &Site,
    repository: &str,
    push: &Push,
    feed: &mut Feed,
    start: usize,
) -> Result<Vec<bool>, Refusal> {
    let format = push.format().unwrap_or(Format::Sha1);
    let mut commits = Commits::new(format).cut(&push.shallow);
    let moved = push.commands.iter().any(is_moved);
    if moved && push.has_pack() {
        read(&mut commits, feed, start).await?;
    }
    let mut questions = 0;
    let mut all = Vec::with_capacity(push.commands.len());
    for (number, command) in push.commands.iter().enumerate() {
        if number % AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
        all.push(match is_moved(command) {
            false => !command.old.is_zero() && !command.new.is_zero(),
            true => match commits.walk(&command.new, &command.old) {
                Walk::Leads => false,
                Walk::Leaves(leaves) if questions < QUESTIONS => {
                    questions += 1;
                    !ask::leads(site, repository, &leaves, &command.old, push).await
                }
                Walk::Leaves(_) | Walk::TooFar => true,
            },
        });
    }
    if crate::weaken::is("gate-force") {
        all.fill(false);
    }
    Ok(all)
}

/// Reads the pack as far as commits go. An object that is not whole is unpacked anew, so
/// not for each of the pieces that somebody may cut a pack into.
async fn read(commits: &mut Commits, feed: &mut Feed, start: usize) -> Result<(), Refusal> {
    loop {
        if commits.read(feed.bytes().get(start..).unwrap_or_default()) == Reading::Over {
            return Ok(());
        }
        let enough = feed.bytes().len().saturating_add(PIECE);
        while feed.bytes().len() < enough {
            if !feed.more().await? {
                commits.read(feed.bytes().get(start..).unwrap_or_default());
                return Ok(());
            }
        }
    }
}

/// It gets another value, and its old one could lead there. A tag has no history: to
/// give it another value takes force.
fn is_moved(command: &Command) -> bool {
    let none = |id: &Id| id.is_zero();
    !none(&command.old) && !none(&command.new) && !command.name.starts_with(b"refs/tags/")
}
