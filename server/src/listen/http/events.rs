//! A call as it happens: server-sent events `notice`, `piece`, and `result` at the end.
//!
//! Owns: their form, a sign of life while nothing happens, and that a call ends when nobody
//! listens any more. Must not: hold what a listener does not take; the tool waits then.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::House;
use super::body::Said;
use super::guard::Caller;
use super::tools::{ONCE, invocation, telling};

/// Events that are told and not taken.
const TOLD: usize = 16;
/// Between two signs of life: proxies give up on what is silent for a minute.
const LIFE: Duration = Duration::from_secs(15);

/// Begins the call, and answers at once. It may take as long as its tool lets it.
pub(super) fn call(house: &Arc<House>, caller: &Caller, tool: String, said: Said) -> Response {
    let gone = CancellationToken::new();
    let Said { bytes, room } = said;
    let mut asked = invocation(caller, tool, bytes, gone.clone());
    let (mut pieces, mut notices) = telling(&mut asked, TOLD);
    let answers = caller.answers.clone();
    let mut called = house.agent.dispatch(asked, move |seen| answers.take(seen, ONCE));
    let busy = house.busy.token();
    let (mut to, body) = Channel::<Bytes, Infallible>::new(TOLD);
    let guard = gone.clone().drop_guard();
    tokio::spawn(async move {
        let _held = (room, busy);
        let mut life = interval(LIFE);
        life.set_missed_tick_behavior(MissedTickBehavior::Delay);
        life.reset();
        loop {
            let event = tokio::select! {
                biased;
                Some(line) = notices.recv() => event("notice", &line),
                Some(piece) = pieces.recv() => event("piece", &piece),
                seen = &mut called => {
                    let Ok(seen) = seen else { return };
                    while let Ok(piece) = pieces.try_recv() {
                        tell(&mut to, event("piece", &piece)).await;
                    }
                    let last = event("result", &seen);
                    // Once is enough, however long nobody takes it.
                    drop(seen);
                    tell(&mut to, last).await;
                    return;
                }
                _ = life.tick() => Bytes::from_static(b": still under way\n\n"),
                () = gone.cancelled() => return,
            };
            tell(&mut to, event).await;
        }
    });
    // Dropped with its connection, it takes the call along.
    let body = body.map_frame(move |frame| {
        let _listens = &guard;
        frame
    });
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// One that cannot be told has nobody who listens.
async fn tell(to: &mut Sender<Bytes, Infallible>, event: Bytes) {
    to.send_data(event).await.ok();
}

/// JSON has no line's end in it.
fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
