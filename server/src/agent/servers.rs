//! Programs that go on after the call that started them: development servers.
//!
//! Owns: which ones there are, by caller and name, what they wrote last, and how they ended.
//! Each is one call of the broker's, by the rules of dev_server_start, that nobody waits
//! for; it ends when it is told to, when its time is over, or when the server stops. Nobody
//! sees or ends another caller's. Must not: start or end a process; `Broker::call` does.

mod log;
mod said;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool_files::{FileError, Roots, Stop};
use tool_protocol::{Code, Failure, Fault, Observation, Reply};

use self::log::Log;
pub(super) use self::said::{
    Ask, LogsInput, LogsOutput, StartInput, StartOutput, Starting, StatusInput, StatusOutput,
    StopInput, StopOutput,
};
use self::said::{Shown, State};
use super::Invocation;
use super::run::{Wires, begin, failure};
use crate::broker::{Broker, Peer, Work};
use crate::exec::{Chunk, Event, Source};
use crate::registry::Tool;

/// How many of one caller's run at once.
const RUNNING: usize = 4;
/// How many are known of, of all callers: those that have ended are kept for their output.
const KNOWN: usize = 32;
/// How long it is waited for an end that was asked for, beyond the server's own patience.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often whoever waits for that looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Servers {
    known: Mutex<Vec<Arc<Server>>>,
    tasks: TaskTracker,
}

/// One of them.
#[derive(Debug)]
struct Server {
    peer: Peer,
    name: String,
    words: Vec<String>,
    since: Instant,
    /// Cancelled when it is to end.
    gone: CancellationToken,
    inner: Mutex<Inner>,
    /// It is another than it was, for the call that started it.
    changed: Notify,
    over: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// What the log and the audit call its call.
    call_id: Option<String>,
    /// Its program runs, or has run.
    started: bool,
    ready: bool,
    wanted: Option<String>,
    log: Log,
    ended: Option<(Instant, Reply)>,
    /// dev_server_stop was called.
    stopped: bool,
}

impl Servers {
    /// Waits until none runs.
    pub(super) async fn rest(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Takes the name for a new one.
    fn enter(&self, server: &Arc<Server>) -> Result<(), Failure> {
        let mut known = held(&self.known);
        let own = |other: &&Arc<Server>| other.peer == server.peer && !other.is_over();
        if known.iter().filter(own).any(|other| other.name == server.name) {
            let message = format!(
                "{} runs already: end it with dev_server_stop, or give another name",
                server.name
            );
            return Err(Failure::new(Fault::AlreadyExists, message));
        }
        if known.iter().filter(own).count() >= RUNNING {
            let message = format!("{RUNNING} run already: end one of them with dev_server_stop");
            return Err(Failure::new(Fault::Broker(Code::Busy), message));
        }
        known.retain(|other| other.peer != server.peer || other.name != server.name);
        while known.len() >= KNOWN {
            let Some(one) = dispensable(&known) else {
                let message = "as many run as there may: try again later";
                return Err(Failure::new(Fault::Broker(Code::Busy), message));
            };
            known.remove(one);
        }
        known.push(Arc::clone(server));
        Ok(())
    }

    /// The caller's one of that name.
    fn find(&self, peer: Peer, name: &str) -> Result<Arc<Server>, FileError> {
        let known = held(&self.known);
        let found = known.iter().find(|server| server.peer == peer && server.name == name);
        found.map(Arc::clone).ok_or_else(|| {
            let message = format!("no development server is called {name}: dev_server_status");
            FileError::said(Fault::NoSuchServer, format!("{message} lists them"))
        })
    }

    fn forget(&self, server: &Arc<Server>) {
        held(&self.known).retain(|other| !Arc::ptr_eq(other, server));
    }
}

/// The oldest that is over of the caller that has the most of these: who starts one after
/// the other pushes out its own.
fn dispensable(known: &[Arc<Server>]) -> Option<usize> {
    let over = || known.iter().enumerate().filter(|(_, server)| server.is_over());
    let own = |peer: Peer| over().filter(|(_, other)| other.peer == peer).count();
    let (one, _) = over().rev().max_by_key(|(_, server)| own(server.peer))?;
    Some(one)
}

impl Server {
    fn is_over(&self) -> bool {
        held(&self.inner).ended.is_some()
    }

    fn take(&self, source: Source, bytes: &[u8]) {
        let mut inner = held(&self.inner);
        let stream = match source {
            Source::Stdout => 0,
            Source::Stderr => 1,
            Source::Terminal | Source::Stopped(_) => return,
        };
        let Inner { log, wanted, .. } = &mut *inner;
        if log.take(stream, bytes, wanted.as_deref()) {
            (inner.ready, inner.wanted) = (true, None);
            self.changed.notify_one();
        }
    }

    fn starts(&self) {
        let mut inner = held(&self.inner);
        inner.started = true;
        inner.ready |= inner.wanted.is_none();
        self.changed.notify_one();
    }

    fn ends(&self, reply: Reply) {
        let mut inner = held(&self.inner);
        inner.log.end();
        // It may have ended before it could say that it runs.
        inner.started |= reply.code.is_none();
        inner.ended = Some((Instant::now(), reply));
        self.changed.notify_one();
        self.over.notify_all();
    }

    /// Waits for its end, in a thread of its own.
    fn end(&self, stop: &Stop) -> Result<(), FileError> {
        let until = Instant::now() + PATIENCE;
        let mut inner = held(&self.inner);
        inner.stopped |= inner.ended.is_none();
        self.gone.cancel();
        while inner.ended.is_none() {
            stop.check()?;
            if Instant::now() >= until {
                let message =
                    format!("{} does not end: try again, or tell the operator", self.name);
                return Err(FileError::said(Fault::ExecutionError, message));
            }
            let waited = self.over.wait_timeout(inner, LOOK);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn shown(&self) -> Shown {
        let inner = held(&self.inner);
        let ended = inner.ended.as_ref();
        let until = ended.map_or_else(Instant::now, |(at, _)| *at);
        let state = match ended {
            Some(_) => State::Ended,
            None if inner.started => State::Running,
            None => State::Starting,
        };
        let stopped = inner.stopped.then(|| "dev_server_stop ended it".to_owned());
        // What the broker ended has no status of its own.
        let by_itself = ended.filter(|(_, reply)| inner.started && reply.code.is_none());
        Shown {
            name: self.name.clone(),
            state,
            ready: inner.ready && ended.is_none(),
            command: self.words.clone(),
            ran_ms: u64::try_from((until - self.since).as_millis()).unwrap_or(u64::MAX),
            exit_code: by_itself.map(|(_, reply)| reply.exit_code),
            signal: ended.and_then(|(_, reply)| reply.signal.clone()),
            reason: ended.and_then(|(_, reply)| stopped.or_else(|| reply.error.clone())),
            last_line: inner.log.last(),
        }
    }
}

/// Starts one, and waits until it is ready where that was asked for.
pub(super) async fn start(
    servers: &Arc<Servers>,
    broker: &Arc<Broker>,
    tool: Arc<Tool>,
    starting: Starting,
    asked: Invocation,
) -> Observation {
    let began = Instant::now();
    let Starting { name, program, ready, patience } = starting;
    let tool_name = tool.name.clone();
    let env_left_out = program.left_out(Some(&tool));
    let observed = |output: Option<StartOutput>, error: Option<Failure>, call_id| Observation {
        success: error.is_none(),
        tool: tool_name,
        output: output.and_then(|output| to_raw_value(&output).ok()),
        error,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        call_id,
    };
    let server = Arc::new(Server {
        peer: asked.peer,
        name,
        words: program.words().to_vec(),
        since: began,
        gone: broker.draining.child_token(),
        inner: Mutex::new(Inner {
            call_id: None,
            started: false,
            ready: false,
            wanted: ready,
            log: Log::default(),
            ended: None,
            stopped: false,
        }),
        changed: Notify::new(),
        over: Condvar::new(),
    });
    if let Err(failure) = servers.enter(&server) {
        return observed(None, Some(failure), None);
    }
    let (task, runs) = (Arc::clone(&server), Arc::clone(broker));
    let mut notices = asked.notices;
    servers.tasks.spawn(async move {
        let (peer, gone, of) = (task.peer, task.gone.clone(), tool.name.clone());
        let (carried, wires) = begin(&runs, Some(tool), of, program, peer, gone, true);
        let Wires { call_id, mut output, mut events } = wires;
        held(&task.inner).call_id = Some(call_id);
        let listen = async {
            while let Some(Chunk { source, bytes }) = output.recv().await {
                task.take(source, &bytes);
            }
        };
        let told = async {
            while let Some(event) = events.recv().await {
                match (event, &notices) {
                    (Event::Started, _) => {
                        // Whoever started it is told nothing more.
                        notices = None;
                        task.starts();
                    }
                    (Event::Notice(line), Some(notices)) => drop(notices.try_send(line)),
                    _ => {}
                }
            }
        };
        let (reply, (), ()) = tokio::join!(carried, listen, told);
        task.ends(reply);
    });
    wait(&server, patience, &asked.gone).await;
    let log = |server: &Server| held(&server.inner).log.last_lines();
    let ended = held(&server.inner).ended.clone();
    let output = StartOutput { server: server.shown(), lines: log(&server), env_left_out };
    let call_id = held(&server.inner).call_id.clone();
    let Some((_, reply)) = ended else { return observed(Some(output), None, call_id) };
    let started = held(&server.inner).started;
    let Reply { code, error, rule, hint, exit_code, .. } = reply;
    match code {
        // It never ran: there is nothing to ask about.
        Some(code) if !started => {
            servers.forget(&server);
            observed(None, Some(failure(code, error, rule, hint)), call_id)
        }
        Some(code) => observed(Some(output), Some(failure(code, error, rule, hint)), call_id),
        None => {
            let message = format!("it ended with exit code {exit_code}: see what it wrote");
            observed(Some(output), Some(Failure::new(Fault::ExecutionError, message)), call_id)
        }
    }
}

/// Until it is ready, over, or nobody waits for it any more: then it is ended.
async fn wait(server: &Server, patience: Duration, gone: &CancellationToken) {
    let mut until = None;
    loop {
        {
            let inner = held(&server.inner);
            if inner.ready || inner.ended.is_some() {
                return;
            }
            if inner.started && until.is_none() {
                until = Some(tokio::time::Instant::now() + patience);
            }
        }
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = server.changed.notified() => {}
            () = over => return,
            () = gone.cancelled(), if !server.gone.is_cancelled() => server.gone.cancel(),
        }
    }
}

/// Something about those that run, as work that the broker decides on.
#[derive(Debug)]
pub(super) struct Asked {
    servers: Arc<Servers>,
    peer: Peer,
    ask: Ask,
}

impl Asked {
    /// For whom.
    pub(super) fn new(servers: &Arc<Servers>, peer: Peer, ask: Ask) -> Asked {
        Asked { servers: Arc::clone(servers), peer, ask }
    }

    fn status(&self, name: Option<&str>) -> Result<StatusOutput, FileError> {
        let of: Vec<Arc<Server>> = match name {
            Some(name) => vec![self.servers.find(self.peer, name)?],
            None => {
                let known = held(&self.servers.known);
                known.iter().filter(|server| server.peer == self.peer).cloned().collect()
            }
        };
        let shown: BTreeMap<String, Shown> =
            of.iter().map(|server| (server.name.clone(), server.shown())).collect();
        Ok(StatusOutput { servers: shown.into_values().collect() })
    }
}

impl Work for Asked {
    fn find(&mut self, _: &Roots) -> Result<Vec<Vec<u8>>, FileError> {
        Ok(vec![self.ask.name().unwrap_or_default().as_bytes().to_vec()])
    }

    fn run(
        &mut self,
        stop: &Stop,
        _: Option<&tokio::sync::mpsc::Sender<serde_json::Value>>,
    ) -> Result<Box<RawValue>, FileError> {
        let output = match &self.ask {
            Ask::Status(asked) => to_raw_value(&self.status(asked.name.as_deref())?),
            Ask::Stop(asked) => {
                let server = self.servers.find(self.peer, &asked.name)?;
                let was_running = !server.is_over();
                server.end(stop)?;
                to_raw_value(&StopOutput { was_running, server: server.shown() })
            }
            Ask::Logs(asked) => {
                let server = self.servers.find(self.peer, &asked.name)?;
                let lines = held(&server.inner).log.lines(asked.since, asked.lines);
                to_raw_value(&LogsOutput { server: server.shown(), lines })
            }
        };
        output.map_err(|error| FileError::said(Fault::ExecutionError, error.to_string()))
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
