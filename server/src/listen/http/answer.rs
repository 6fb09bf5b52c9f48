//! What goes back: JSON, and three forms of an error, each on the routes of whoever
//! invented it.
//!
//! Owns: the forms, and which path has which. Must not: know a tool.

use std::borrow::Cow;
use std::time::SystemTime;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use tool_protocol::{Failure, Observation};

use crate::audit::rfc3339;
use crate::listen::unread::was_done;

/// Why a request has no answer of its own.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
    after: Option<u64>,
    of: Option<Box<Of>>,
}

/// The call that it is about, where there was one.
#[derive(Clone, Debug)]
struct Of {
    tool: String,
    rule: Option<String>,
    hint: Option<String>,
    call_id: Option<String>,
}

/// Who invented a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `{success: false, error, code, details: {timestamp, path, method}}`
    Original,
    /// `{success: false, error}`
    Trial,
    /// An observation.
    Own,
}

impl Form {
    /// Of a path.
    pub(super) fn of(path: &str) -> Form {
        match path {
            "/search" | "/read" | "/command" | "/edit" | "/container-operation" => Form::Original,
            path if path.starts_with("/api/") => Form::Trial,
            _ => Form::Own,
        }
    }
}

impl Problem {
    /// One.
    pub(super) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Problem {
        let (code, message) = (code.into(), message.into());
        Problem { status, code, message, after: None, of: None }
    }

    /// To be tried again after so many seconds.
    pub(super) fn after(mut self, seconds: u64) -> Problem {
        self.after = Some(seconds);
        self
    }

    /// With another status.
    pub(super) fn with_status(mut self, status: StatusCode) -> Problem {
        self.status = status;
        self
    }

    /// Its status.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// What a tool did not do.
    pub(super) fn of(seen: &Observation, failure: &Failure) -> Problem {
        let status = status_of(failure);
        let mut problem = Problem::new(status, failure.code.to_string(), failure.message.clone());
        problem.of = Some(Box::new(Of {
            tool: seen.tool.clone(),
            rule: failure.rule.clone(),
            hint: failure.hint.clone(),
            call_id: seen.call_id.clone(),
        }));
        let passes =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        // Nobody is told to repeat what was done.
        if passes && !was_done(failure) {
            problem.after = Some(1);
        }
        problem
    }

    fn body(&self, form: Form, method: &Method, path: &str) -> Value {
        let Problem { code, message, .. } = self;
        match form {
            Form::Trial => json!({"success": false, "error": message}),
            Form::Original => {
                let mut details = json!({
                    "timestamp": rfc3339(SystemTime::now()),
                    "path": path,
                    "method": method.as_str(),
                });
                self.beside(&mut details, true);
                json!({"success": false, "error": message, "code": code, "details": details})
            }
            Form::Own => {
                let mut error = json!({"code": code, "message": message});
                self.beside(&mut error, false);
                json!({
                    "success": false,
                    "tool": self.of.as_ref().map_or("", |of| &of.tool),
                    "output": null,
                    "error": error,
                    "duration_ms": 0,
                })
            }
        }
    }

    fn beside(&self, to: &mut Value, with_call: bool) {
        let (Some(to), Some(of)) = (to.as_object_mut(), &self.of) else { return };
        let call = of.call_id.as_ref().filter(|_| with_call);
        let values = [("rule", of.rule.as_ref()), ("hint", of.hint.as_ref()), ("callId", call)];
        for (name, value) in values {
            if let Some(value) = value {
                to.insert(name.to_owned(), value.as_str().into());
            }
        }
    }
}

/// The HTTP status of a failure.
pub(super) fn status_of(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Goes on to `render`, which knows the path.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(self);
        response
    }
}

/// An error in the form of its path; any other answer as it is.
pub(super) fn render(mut response: Response, method: &Method, path: &str) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    if let Some(after) = problem.after {
        response.headers_mut().insert(RETRY_AFTER, after.into());
    }
    let body = problem.body(Form::of(path), method, path).to_string();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = if method == Method::HEAD { Body::empty() } else { body.into() };
    response
}

/// An answer.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = status;
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(error) => {
            let message = format!("the answer cannot be written: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message).into_response()
        }
    }
}
