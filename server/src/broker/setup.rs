//! setup.sh: once for each tool, when it is loaded.
//!
//! A setup runs as the tool does: its HOME, its environment, the tool's folder
//! as the directory. Its output goes to the log. A call of the tool waits until
//! its setup has ended; a failure is shown by `status` and stops nothing.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tool_policy::facts::Observed;
use tracing::{Instrument, info, info_span, warn};

use super::Broker;
use super::environment::Of;
use super::plan::of_the_operator;
use crate::exec::{Chunk, Hear, Io, Outcome, Plan, Report};
use crate::os::process::Exit;
use crate::os::root::Root;
use crate::registry::Tool;

/// Bytes of a line of the log, at most.
const LONGEST_LINE: usize = 4096;
/// What a line of the log has beside its text, in bytes.
const A_LINE: usize = 128;

/// How far a tool's setup is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Under way.
    Running,
    /// Ended with status 0.
    Done,
    /// What went wrong.
    Failed(String),
}

/// The setups of all tools.
#[derive(Debug)]
pub(crate) struct Setups {
    timeout: Duration,
    states: Mutex<BTreeMap<String, watch::Receiver<State>>>,
}

impl Setups {
    /// Each may take so long.
    pub(crate) fn new(timeout: Duration) -> Setups {
        Setups { timeout, states: Mutex::default() }
    }

    /// Starts the setups of tools that have one. Returns at once.
    pub(crate) fn start(&self, broker: &Broker, tools: &[Arc<Tool>]) {
        for tool in tools.iter().filter(|tool| tool.setup.is_some()) {
            let (sender, receiver) = watch::channel(State::Running);
            let name = tool.name.clone();
            self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(name, receiver);
            let Some(broker) = broker.facts.this.upgrade() else { continue };
            let tool = Arc::clone(tool);
            let span = info_span!("setup", tool = %tool.name);
            let work = async move {
                let state = match run(&broker, &tool, broker.setups.timeout).await {
                    Ok(()) => State::Done,
                    Err(why) => {
                        warn!("setup.sh failed: {why}");
                        State::Failed(why)
                    }
                };
                drop(sender.send(state));
            };
            tokio::spawn(work.instrument(span));
        }
    }

    /// Whether the setup of that tool is under way.
    pub(crate) fn runs(&self, tool: &str) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(tool).is_some_and(|state| *state.borrow() == State::Running)
    }

    /// Waits until the setup of that tool is not under way.
    pub(crate) async fn finished(&self, tool: &str) {
        let state = self.states.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        if let Some(mut state) = state {
            // An error means that the task is gone: then it is not under way.
            drop(state.wait_for(|state| *state != State::Running).await);
        }
    }

    /// All of them, for `status`.
    pub(crate) fn states(&self) -> BTreeMap<String, State> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(name, state)| (name.clone(), state.borrow().clone())).collect()
    }
}

/// Runs the setups of these tools one after another, telling each; for
/// `tool-server setup`. Says whether all went well.
pub(crate) async fn run_in_foreground(
    broker: &Broker,
    tools: &[Arc<Tool>],
    mut tell: impl FnMut(&str, Result<(), &str>),
) -> bool {
    let mut well = true;
    for tool in tools.iter().filter(|tool| tool.setup.is_some()) {
        let result = run(broker, tool, broker.setups.timeout).await;
        well &= result.is_ok();
        tell(&tool.name, result.as_ref().copied().map_err(String::as_str));
    }
    well
}

/// Once for each HOME that the tool has.
async fn run(broker: &Broker, tool: &Tool, timeout: Duration) -> Result<(), String> {
    let ground = broker.executor.ground();
    let who = |place: &[u8]| {
        let identity = broker.confines.identity(ground, &broker.workspace, place);
        identity.map_err(|refusal| refusal.message)
    };
    let first = broker.workspace.first();
    let mut done = vec![who(first)?];
    run_in(broker, tool, first, timeout).await?;
    for root in broker.workspace.roots() {
        let identity = who(root.resolved())?;
        if tool.is_confined() && !done.contains(&identity) {
            done.push(identity);
            run_in(broker, tool, root.resolved(), timeout).await?;
        }
    }
    Ok(())
}

/// As a call beneath that root would run.
async fn run_in(
    broker: &Broker,
    tool: &Tool,
    root: &[u8],
    timeout: Duration,
) -> Result<(), String> {
    let plan = plan(broker, tool, root, timeout)?;
    let approved = of_the_operator(plan).ok_or("refused")?;
    let (_orders, orders) = mpsc::channel(1);
    let hear = Hear::new(orders, None, CancellationToken::new(), broker.stop.clone());
    // Nobody writes to its input: it is at its end from the start.
    let (_, input) = mpsc::channel(1);
    let (output, lines) = mpsc::channel(1);
    let io = Io::Streamed { input, typed: None, output, credit: None, terminals: Vec::new() };
    let running = broker.executor.start(&approved, io, None).map_err(|error| error.to_string())?;
    let attended = broker.executor.attend(&approved, running, hear, ());
    let (report, ()) = tokio::join!(attended, log_lines(lines, "setup.sh", usize::MAX));
    let Report { outcome, .. } = report.map_err(|error| error.to_string())?;
    came_to(&outcome, timeout)
}

/// Writes a setup's output to the log, line by line; so many bytes of it, a line being
/// worth some of them.
pub(super) async fn log_lines(mut output: mpsc::Receiver<Chunk>, what: &str, most: usize) {
    let (mut line, mut room, mut omitted) = (Vec::new(), most, 0usize);
    while let Some(chunk) = output.recv().await {
        for byte in &chunk.bytes {
            if room == 0 {
                omitted = omitted.saturating_add(1);
                continue;
            }
            room = room.saturating_sub(if *byte == b'\n' { A_LINE } else { 1 });
            if *byte == b'\n' || line.len() >= LONGEST_LINE {
                info!("{what}: {}", line.escape_ascii());
                line.clear();
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        info!("{what}: {}", line.escape_ascii());
    }
    if omitted > 0 {
        info!("{what}: and {omitted} bytes more, which are not in the log");
    }
}

/// What an end means for a setup, in words where it is none that is well.
pub(super) fn came_to(outcome: &Outcome, timeout: Duration) -> Result<(), String> {
    match outcome {
        Outcome::Exited(Exit::Code(0)) => Ok(()),
        Outcome::Exited(Exit::Code(code)) => Err(format!("exit status {code}")),
        Outcome::Exited(Exit::Signal(number)) => Err(format!("ended by signal {number}")),
        Outcome::TimedOut => Err(format!("took longer than {} s", timeout.as_secs())),
        Outcome::CallerGone => Err("it was ended: it is not wanted any more".to_owned()),
        Outcome::Interrupted | Outcome::OutputTooLarge(_) => Err("the server stopped".to_owned()),
    }
}

fn plan(broker: &Broker, tool: &Tool, beneath: &[u8], timeout: Duration) -> Result<Plan, String> {
    let script = tool.setup.as_deref().ok_or("no setup.sh")?;
    let Broker { workspace, confines, homes, .. } = broker;
    let ground = broker.executor.ground();
    let refused = |refusal: tool_protocol::Refusal| refusal.message;
    let guards = broker.guards(tool);
    confines.heed(&broker.registry.snapshot());
    let footing = confines.footing(ground, workspace, homes, tool, beneath, guards);
    let footing = footing.map_err(refused)?;
    let confinement = match tool.is_confined() {
        true => confines.confine(ground, workspace, tool, &footing, None, true).map(Some),
        false if guards => confines.release(ground, tool, &footing).map(Some),
        false => Ok(None),
    };
    let confinement = confinement.map_err(refused)?;
    let home = footing.home.as_os_str().as_bytes();
    let temporary = [home, b"/tmp"].concat();
    let folder = script.parent().unwrap_or(Path::new("/"));
    let root = Root::open(folder).map_err(|errno| cannot("open", folder, errno))?;
    let directory = root.directory("".as_ref()).map_err(|errno| cannot("enter", folder, errno))?;
    let temporary = tool.is_confined().then_some(temporary.as_slice());
    let of = Of { tool, home, temporary, offered: &[], cwd: b"", args: &[] };
    let mut environment = broker.environment.build(&of);
    let roots: Vec<&[u8]> =
        broker.workspace.paths().map(|path| path.as_os_str().as_bytes()).collect();
    let mut workspace = b"WORKSPACE=".to_vec();
    workspace.extend(roots.join(&b':'));
    environment.extend(CString::new(workspace).ok());
    let string = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
    Ok(Plan {
        program: c"/bin/bash".to_owned(),
        arguments: vec![c"bash".to_owned(), string(script.as_os_str().as_bytes())?],
        own: 2,
        environment,
        fresh: 0,
        directory,
        place: folder.as_os_str().as_bytes().to_vec(),
        roots: broker.workspace.names(),
        observed: Observed::default(),
        umask: 0o022,
        timeout: Some(timeout),
        limits: tool.limits.clone(),
        redact: None,
        bell: None,
        confinement,
        call: broker.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
    })
}

fn cannot(what: &str, path: &Path, errno: Errno) -> String {
    format!("cannot {what} {}: {}", path.display(), errno.desc())
}
