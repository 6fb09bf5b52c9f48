//! What comes with a request: its kind, its size, its time.
//!
//! Owns: that no request holds more memory or more time than the settings say. Must not:
//! know what it means.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tool_protocol::request::input_of;

use super::House;
use super::answer::Problem;
use super::guard::Caller;

/// A body, and the room that it takes until the call is over.
pub(super) struct Said {
    /// As it came.
    pub(super) bytes: Vec<u8>,
    /// Given back when it is dropped.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl House {
    /// What is left of a request's time.
    pub(super) fn left(&self, caller: &Caller) -> Duration {
        self.settings.request_timeout.saturating_sub(caller.began.elapsed())
    }

    /// The body of a request, where it is JSON and not too long, within its time.
    pub(super) async fn body(&self, caller: &Caller, request: Request) -> Result<Said, Problem> {
        let (head, body) = request.into_parts();
        let most = self.settings.max_request;
        let too_large = || {
            let message = format!(
                "the request has more than {most} bytes: see http.max_request (MAX_REQUEST_SIZE)"
            );
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE", message)
        };
        let said = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if said.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > most) {
            return Err(too_large());
        }
        if !is_json(&head.headers) {
            let message = "the body is to be JSON: send Content-Type: application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "UNSUPPORTED_MEDIA_TYPE", message));
        }
        match timeout(self.left(caller), self.collect(body, most)).await {
            Ok(Ok(Some(said))) => Ok(said),
            Ok(Ok(None)) => Err(too_large()),
            Ok(Err(problem)) => Err(problem),
            Err(_) => {
                let message = "the request did not come whole within its time: see \
                               http.request_timeout_ms (REQUEST_TIMEOUT)";
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", message))
            }
        }
    }

    /// `None`: too much.
    async fn collect(&self, mut body: Body, most: usize) -> Result<Option<Said>, Problem> {
        let mut said = Said { bytes: Vec::new(), room: None };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_error| {
                let message = "the request did not come whole";
                Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if said.bytes.len() + data.len() > most {
                return Ok(None);
            }
            let more = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let room = std::sync::Arc::clone(&self.room).try_acquire_many_owned(more);
            let room = room.map_err(|_none| {
                let message = "too many large requests are under way: try again later";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message).after(1)
            })?;
            match &mut said.room {
                Some(held) => held.merge(room),
                none => *none = Some(room),
            }
            said.bytes.extend_from_slice(&data);
        }
        Ok(Some(said))
    }
}

impl Said {
    /// As a JSON object, strictly.
    pub(super) fn object(
        self,
    ) -> Result<(Map<String, Value>, Option<OwnedSemaphorePermit>), Problem> {
        let bad = |message: String| Problem::new(StatusCode::BAD_REQUEST, "BAD_JSON", message);
        let text = input_of(self.bytes).map_err(|refusal| bad(refusal.message))?;
        let object = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        Ok((object, self.room))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let essence = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}
