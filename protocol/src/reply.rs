//! The last message of a call, and the other things a server says.

use serde::{Serialize, Serializer};

use crate::request::Id;
use crate::text::{lossy, serialize_bytes};
use crate::{Code, Refusal, limits};

/// Captured output in a buffered reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Every byte as it was.
    Exact(Vec<u8>),
    /// For a client that only knows the seed's protocol: U+FFFD for what is not
    /// UTF-8.
    Lossy(Vec<u8>),
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Output::Exact(bytes) => serialize_bytes(bytes, serializer),
            Output::Lossy(bytes) => serializer.serialize_str(&lossy(bytes)),
        }
    }
}

/// The last message of a call. docs/protocol.md, "The last message of a call".
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reply {
    /// 0 to 255; 128+n where signal n ended the tool.
    pub exit_code: u8,
    /// The signal's name, without `SIG`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Of a buffered call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Output>,
    /// Of a buffered call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Output>,
    /// One line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "code_name")]
    pub code: Option<Code>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// From the request's arrival to this message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What the server's log calls this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// As in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

#[allow(clippy::ref_option, reason = "serde's shape")]
fn code_name<S: Serializer>(code: &Option<Code>, serializer: S) -> Result<S::Ok, S::Error> {
    code.map(Code::as_str).serialize(serializer)
}

impl Reply {
    /// A reply that says why the broker itself ended or refused the call.
    pub fn refused(refusal: Refusal) -> Reply {
        Reply {
            exit_code: refusal.code.exit_status(),
            error: Some(refusal.message),
            code: Some(refusal.code),
            rule: refusal.rule,
            hint: refusal.hint,
            ..Reply::default()
        }
    }

    /// The same, with a line for people about how the tool itself ended, and what to
    /// do; it has no code.
    #[must_use]
    pub fn told(mut self, error: &str, hint: &str) -> Reply {
        if self.error.is_none() {
            self.error = Some(crate::one_line(error));
            self.hint = Some(crate::one_line(hint));
        }
        self
    }

    /// The JSON of this reply. One that does not fit a frame is replaced by a
    /// reply that says so and counts the output: never cut.
    pub fn to_payload(&self) -> Vec<u8> {
        match serde_json::to_vec(self) {
            Ok(payload) if payload.len() <= limits::MAX_FRAME => payload,
            Ok(_) => self.too_large(),
            Err(_) => {
                br#"{"exit_code":125,"code":"internal","error":"the reply could not be written"}"#
                    .to_vec()
            }
        }
    }

    fn too_large(&self) -> Vec<u8> {
        let length = |output: &Option<Output>| match output {
            Some(Output::Exact(bytes) | Output::Lossy(bytes)) => bytes.len(),
            None => 0,
        };
        let seen = length(&self.stdout) + length(&self.stderr);
        let smaller = Reply {
            id: self.id.clone(),
            call_id: self.call_id.clone(),
            duration_ms: self.duration_ms,
            ..Reply::output_too_large(seen)
        };
        serde_json::to_vec(&smaller).unwrap_or_default()
    }

    /// The reply of a call whose output, `seen` bytes so far, fits no frame.
    pub fn output_too_large(seen: usize) -> Reply {
        let empty = || Some(Output::Exact(Vec::new()));
        let message = format!(
            "the output does not fit one reply ({seen} bytes seen, a reply has at most {}): \
             ask for less, or use stdio \"stream\" or \"fds\"",
            limits::MAX_FRAME
        );
        Reply {
            stdout: empty(),
            stderr: empty(),
            ..Reply::refused(Refusal::new(Code::OutputTooLarge, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_fits_no_frame_says_so_and_counts() {
        let reply = Reply { stdout: Some(Output::Exact(vec![b'\n'; 40_000])), ..Reply::default() };
        let payload = String::from_utf8(reply.to_payload()).unwrap();
        assert!(payload.contains("output_too_large") && payload.contains("40000"), "{payload}");
    }

    #[test]
    fn bytes_are_exact_but_for_the_seed() {
        let bytes = vec![b'a', 0xff];
        let exact = Reply { stdout: Some(Output::Exact(bytes.clone())), ..Reply::default() };
        let seed = Reply { stdout: Some(Output::Lossy(bytes)), ..Reply::default() };
        assert_eq!(exact.to_payload(), br#"{"exit_code":0,"stdout":{"b64":"Yf8="}}"#);
        assert_eq!(seed.to_payload(), "{\"exit_code\":0,\"stdout\":\"a\u{fffd}\"}".as_bytes());
    }
}
