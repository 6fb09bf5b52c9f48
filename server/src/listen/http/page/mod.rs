//! For people: a page with the tools, the calls and what was refused, whole without a
//! script, and live with one.
//!
//! Owns: the page at `/`, what belongs to it, and what a browser may do with it. Must not:
//! need anything from elsewhere, show a caller another one's calls, or answer a question;
//! that is `operator`'s.
//!
//! - `html`     the page
//! - `picture`  its pictures
//! - `live`     what happens, as server-sent events

mod html;
mod live;
mod picture;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::House;
use super::guard::Caller;
use crate::broker::Viewer;

pub(super) use self::html::Forms;
pub(super) use self::live::{Listeners, events};

/// Nothing but what is here; no text becomes code, not even by the page's own script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
/// The same where there are forms.
const WITH_FORMS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                          img-src 'self'; connect-src 'self'; base-uri 'none'; \
                          form-action 'self'; frame-ancestors 'none'; \
                          require-trusted-types-for 'script'; trusted-types 'none'";

/// `GET /`
pub(super) async fn page(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let view = house.view(&caller);
    let forms = house.desk.as_ref().map(|desk| desk.forms(&caller.name));
    let text = html::document(&view, forms.as_ref());
    let mut response = own("text/html; charset=utf-8", text);
    let headers = response.headers_mut();
    let policy = if forms.is_some() { WITH_FORMS } else { POLICY };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    // With `no-referrer` a browser would send its form's Origin as null.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// `GET /assets/page.css`
pub(super) async fn style() -> Response {
    own("text/css; charset=utf-8", include_str!("page.css"))
}

/// `GET /assets/page.js`
pub(super) async fn script() -> Response {
    own("text/javascript; charset=utf-8", include_str!("page.js"))
}

/// `GET /assets/icon.svg`
pub(super) async fn icon() -> Response {
    own("image/svg+xml", include_str!("icon.svg"))
}

fn own(kind: &'static str, text: impl Into<axum::body::Body>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text.into()).into_response()
}

impl House {
    /// Who looks: at the operators' door an operator, at the callers' a caller.
    fn viewer(&self, caller: &Caller) -> Viewer {
        if self.desk.is_some() { Viewer::Operator } else { Viewer::Caller(caller.peer) }
    }

    /// All that there is to see.
    fn view(&self, caller: &Caller) -> Value {
        let viewer = self.viewer(caller);
        let mut view = self.agent.broker().view(viewer);
        if let Some(view) = view.as_object_mut() {
            view.insert("name".to_owned(), json!(*caller.name));
        }
        view
    }
}
