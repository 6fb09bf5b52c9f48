//! What happens, as server-sent events: `state` first and whenever something was left out,
//! then `began`, `changed`, `ended`, `refused`, `approvals`, `tools`, `attention`, and
//! `figures` each second and with `approvals`.
//!
//! Owns: how many listen, how much each is told, and that one who does not take what it is
//! told is cut. Must not: make a call wait.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::House;
use super::super::answer::Problem;
use super::super::guard::Caller;
use crate::broker::{Approvals, Told, Viewer};

/// Who listen, of all.
const ALL: usize = 16;
/// Who listen with one token.
const OF_ONE: usize = 4;
/// Events that were told and not taken.
const TOLD: usize = 8;
/// Calls' events in a second; beyond, the whole state stands for them.
const IN_A_SECOND: u32 = 100;
/// How long a listener may take nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two lists of questions.
const BETWEEN: Duration = Duration::from_millis(200);
/// Seconds between two looks at what nothing tells of.
const NOW_AND_THEN: u64 = 10;

/// Who listens.
#[derive(Debug)]
pub(in super::super) struct Listeners {
    most: usize,
    by_name: Mutex<HashMap<Arc<str>, usize>>,
}

/// One of them, until it is dropped.
struct Place {
    house: Arc<House>,
    name: Arc<str>,
}

impl Listeners {
    /// A fourth of that many connections, and no more than a few.
    pub(in super::super) fn of_connections(connections: usize) -> Listeners {
        Listeners { most: (connections / 4).clamp(1, ALL), by_name: Mutex::default() }
    }

    fn enter(&self, name: &Arc<str>) -> bool {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = by_name.values().sum();
        let own = by_name.get(name).copied().unwrap_or(0);
        let room = all < self.most && own < OF_ONE;
        if room {
            by_name.insert(Arc::clone(name), own + 1);
        }
        room
    }

    fn leave(&self, name: &Arc<str>) {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        match by_name.get_mut(name) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(by_name.remove(name)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.house.listeners.leave(&self.name);
    }
}

/// `GET /events`
pub(in super::super) async fn events(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let full = || {
        let message = "as many listen as may: close another page of this server";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message).after(10)
    };
    if !house.listeners.enter(&caller.name) {
        return Err(full());
    }
    let place = Place { house: Arc::clone(&house), name: Arc::clone(&caller.name) };
    let happens = house.agent.broker().watch.listen().ok_or_else(full)?;
    let (to, body) = Channel::<Bytes, Infallible>::new(TOLD);
    let gone = CancellationToken::new();
    let guard = gone.clone().drop_guard();
    tokio::spawn(async move {
        let ending = house.agent.broker().draining.clone();
        let listener = Listener { viewer: house.viewer(&caller), caller, to, place };
        tokio::select! {
            biased;
            () = gone.cancelled() => {}
            () = ending.cancelled() => {}
            () = listener.listen(happens) => {}
        }
    });
    let body = body.map_frame(move |frame| {
        let _listens = &guard;
        frame
    });
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// One who listens.
struct Listener {
    viewer: Viewer,
    caller: Caller,
    to: Sender<Bytes, Infallible>,
    place: Place,
}

/// What was told already, and how much of it.
struct Known {
    generation: u64,
    /// When the list may be told again.
    next: Instant,
    tools: Value,
    attention: Vec<String>,
    ticks: u64,
    told: u32,
    left_out: bool,
}

impl Listener {
    /// To its end, which is when it does not take what it is told.
    async fn listen(mut self, mut happens: Receiver<Told>) {
        let house = Arc::clone(&self.place.house);
        let broker = house.agent.broker();
        let mut known = Known {
            generation: broker.approvals.generation(),
            next: Instant::now(),
            tools: broker.tools_seen(self.viewer),
            attention: self.attention(),
            ticks: 0,
            told: 0,
            left_out: false,
        };
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        second.reset();
        let mut well = self.tell("state", &house.view(&self.caller)).await;
        while well {
            well = tokio::select! {
                biased;
                _ = second.tick() => self.each_second(&mut known).await,
                () = changes(&broker.approvals, &known) => {
                    known.generation = broker.approvals.generation();
                    known.next = Instant::now() + BETWEEN;
                    // The count is among the figures: it does not lag behind its question.
                    self.tell("approvals", &broker.approvals_seen(self.viewer)).await
                        && self.tell("figures", &broker.figures_seen()).await
                }
                told = happens.recv() => match told {
                    Ok(told) => self.pass_on(&mut known, &told).await,
                    Err(RecvError::Lagged(_)) => {
                        known.left_out = true;
                        true
                    }
                    Err(RecvError::Closed) => false,
                },
            };
        }
    }

    async fn pass_on(&mut self, known: &mut Known, told: &Told) -> bool {
        if known.told >= IN_A_SECOND {
            known.left_out = true;
            return true;
        }
        let seen = self.place.house.agent.broker().told_seen(self.viewer, told);
        let Some((name, seen)) = seen else { return true };
        known.told += 1;
        self.tell(name, &seen).await
    }

    async fn each_second(&mut self, known: &mut Known) -> bool {
        let house = Arc::clone(&self.place.house);
        let broker = house.agent.broker();
        known.ticks += 1;
        known.told = 0;
        if std::mem::take(&mut known.left_out) {
            return self.tell("state", &house.view(&self.caller)).await;
        }
        let mut well = true;
        // What asks the disk is not asked each second.
        if known.ticks.is_multiple_of(NOW_AND_THEN) {
            let attention = self.attention();
            if attention != known.attention {
                well = self.tell("attention", &Value::from(attention.clone())).await;
                known.attention = attention;
            }
            well = well && self.tell("approvals", &broker.approvals_seen(self.viewer)).await;
        }
        well = well && self.tell("figures", &broker.figures_seen()).await;
        if well && known.ticks.is_multiple_of(2) {
            let tools = broker.tools_seen(self.viewer);
            if tools != known.tools {
                well = self.tell("tools", &tools).await;
                known.tools = tools;
            }
        }
        well
    }

    fn attention(&self) -> Vec<String> {
        match self.viewer {
            Viewer::Operator => self.place.house.agent.broker().needs_attention(),
            Viewer::Caller(_) => Vec::new(),
        }
    }

    /// Whether it was taken.
    async fn tell(&mut self, name: &str, data: &Value) -> bool {
        send(&mut self.to, name, data, PATIENCE).await
    }
}

/// Waits for a change of the questions, and lets some time pass between two.
async fn changes(approvals: &Approvals, known: &Known) {
    sleep_until(known.next).await;
    approvals.changed_since(known.generation).await;
}

/// Whether it was taken, within that time.
async fn send(
    to: &mut Sender<Bytes, Infallible>,
    name: &str,
    data: &Value,
    patience: Duration,
) -> bool {
    // JSON has no line's end in it.
    let event = Bytes::from(format!("event: {name}\ndata: {data}\n\n"));
    matches!(timeout(patience, to.send_data(event)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_takes_nothing_is_cut() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(async {
            let (mut to, body) = Channel::<Bytes, Infallible>::new(TOLD);
            let patience = Duration::from_millis(20);
            let mut taken = 0;
            while send(&mut to, "figures", &Value::Null, patience).await {
                taken += 1;
                assert!(taken <= TOLD, "the queue has an end");
            }
            drop(body);
            assert!(!send(&mut to, "figures", &Value::Null, PATIENCE).await);
        });
    }

    #[test]
    fn places_are_counted_by_name_and_given_back() {
        let listeners = Listeners::of_connections(4 * 6);
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        assert!((0..OF_ONE).all(|_| listeners.enter(&alice)) && !listeners.enter(&alice));
        assert!((0..2).all(|_| listeners.enter(&bob)) && !listeners.enter(&bob), "six in all");
        listeners.leave(&alice);
        assert!(listeners.enter(&bob) && !listeners.enter(&alice));
    }
}
