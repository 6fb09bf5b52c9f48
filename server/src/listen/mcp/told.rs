//! What a call tells while it is under way: progress, and lines for people.
//!
//! Owns: their form. Must not: hold what a client does not take: the tool waits then.

use rmcp::RoleServer;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::Peer;
use serde_json::Value;

/// Bytes of a token that notifications are sent with: each has a copy of it.
pub(super) const TOKEN: usize = 1024;
/// Bytes of a piece that a notification shows.
const SHOWN: usize = 4096;

/// To whom, and what was wanted.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) peer: Peer<RoleServer>,
    /// Where the request has one.
    pub(super) token: Option<ProgressToken>,
    /// Where the client wants lines for people.
    pub(super) lines: bool,
    /// And what a program says on standard error: whose it is.
    pub(super) errors: Option<String>,
    /// How many.
    pub(super) count: u32,
}

impl Told {
    /// A piece of what there will be.
    pub(super) async fn piece(&mut self, piece: &Value) {
        let member = |name: &str| piece.get(name).and_then(Value::as_str);
        let text = match member("text") {
            Some(text) => text.to_owned(),
            None => piece.to_string(),
        };
        self.progress(&text).await;
        if let (Some(tool), Some("stderr"), Some("utf-8")) =
            (&self.errors, member("stream"), member("encoding"))
        {
            let line = shown(&text).trim_end_matches('\n');
            let said = LoggingMessageNotificationParam::new(LoggingLevel::Debug, line.into());
            self.peer.notify_logging_message(said.with_logger(tool.clone())).await.ok();
        }
    }

    /// A person is waited for.
    pub(super) async fn notice(&mut self, line: String) {
        self.progress(&line).await;
        if self.lines {
            let said = LoggingMessageNotificationParam::new(LoggingLevel::Notice, line.into());
            let said = said.with_logger("tool-server");
            self.peer.notify_logging_message(said).await.ok();
        }
    }

    async fn progress(&mut self, text: &str) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let progress = ProgressNotificationParam::new(token.clone(), self.count.into());
        self.peer.notify_progress(progress.with_message(shown(text))).await.ok();
    }
}

fn shown(text: &str) -> &str {
    let end = (0..=SHOWN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_ends_with_a_whole_character() {
        let text = format!("{}é", "a".repeat(SHOWN - 1));
        assert_eq!(shown(&text).len(), SHOWN - 1);
        assert_eq!(shown("é"), "é");
        assert_eq!(shown(""), "");
    }
}
