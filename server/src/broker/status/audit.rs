//! What `status` tells of the audit.

use serde::Serialize;

use crate::audit::State;

/// The audit, as an operator sees it.
#[derive(Debug, Serialize)]
pub(super) struct AuditStatus {
    lines: u64,
    /// Of the last line.
    head: String,
    bytes: u64,
    open: usize,
    reserved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_are: Option<&'static str>,
    waiting: usize,
    lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_on_stdout: Option<u64>,
}

impl AuditStatus {
    /// From what the audit itself tells.
    pub(super) fn of(state: State) -> AuditStatus {
        let then = if state.refuses { "refused" } else { "run unrecorded" };
        AuditStatus {
            lines: state.seq,
            head: state.head,
            bytes: state.bytes,
            open: state.open,
            reserved: state.reserves,
            calls_are: state.trouble.as_ref().map(|_| then),
            trouble: state.trouble,
            waiting: state.waiting,
            lost: state.lost,
            not_on_stdout: state.not_on_stdout,
        }
    }

    /// What is wrong with it, in sentences.
    pub(super) fn attention(&self) -> impl Iterator<Item = String> {
        self.unwritten().into_iter().chain(self.unseen())
    }

    fn unseen(&self) -> Option<String> {
        let lines = self.not_on_stdout.filter(|lines| *lines > 0)?;
        Some(format!(
            "the audit on stdout lacks {lines} lines: nobody reads it, or not fast enough; they are in the file"
        ))
    }

    fn unwritten(&self) -> Option<String> {
        let (trouble, calls_are) = self.trouble.as_ref().zip(self.calls_are)?;
        let (waiting, lost) = (self.waiting, self.lost);
        Some(format!(
            "the audit cannot be written: {trouble}: calls are {calls_are}; {waiting} lines wait, {lost} calls have none"
        ))
    }
}
