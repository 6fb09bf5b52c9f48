//! The operator's own command, run for each new question.
//!
//! What it is told stands in its environment and, whole, as JSON on its input;
//! nothing of it becomes part of the command. It runs as a tool does, but is the
//! operator's: it may answer.

use std::collections::HashSet;
use std::ffi::CString;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_policy::facts::Observed;
use tracing::warn;

use super::question::Shown;
use super::{Approvals, Waiting};
use crate::broker::Broker;
use crate::broker::plan::of_the_operator;
use crate::exec::{Chunk, Hear, Io, Outcome, Plan};
use crate::os::process::Exit;
use crate::os::root::Root;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of a command while it runs: its processes are an operator's.
#[derive(Debug)]
struct Own<'a> {
    numbers: &'a Mutex<HashSet<u32>>,
    call: u32,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.call);
    }
}

impl Approvals {
    fn its_own(&self, call: u32) -> Own<'_> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
        Own { numbers: &self.commands, call }
    }
}

impl Broker {
    /// Whether a process is a tool's, and so no operator's.
    pub(crate) async fn is_a_tools(&self, pid: Pid) -> bool {
        match self.executor.trees().call_of(pid).await {
            Some(Some(call)) => {
                let own = self.approvals.commands.lock().unwrap_or_else(PoisonError::into_inner);
                !own.contains(&call)
            }
            Some(None) => true,
            None => false,
        }
    }

    /// Runs the command, if there is one. Returns at once.
    pub(in crate::broker) fn tell_operators(&self, waiting: &Waiting<'_>) {
        let (Some(command), Some(broker)) =
            (self.approvals.settings.notify.clone(), self.facts.this.upgrade())
        else {
            return;
        };
        let (id, shown) = (waiting.id.clone(), waiting.question.shown.clone());
        tokio::spawn(async move {
            if let Err(why) = run(&broker, &command, &id, &shown).await {
                warn!(approval = id, "the command of approvals.notify failed: {why}");
            }
        });
    }
}

async fn run(broker: &Broker, command: &str, id: &str, shown: &Shown) -> Result<(), String> {
    let plan = plan(broker, command, id, shown)?;
    let own = broker.approvals.its_own(plan.call);
    let approved = of_the_operator(plan).ok_or("refused")?;
    let (_orders, orders) = mpsc::channel(1);
    let hear = Hear::new(orders, None, CancellationToken::new(), broker.stop.clone());
    let (to_command, input) = mpsc::channel(2);
    let mut value = serde_json::to_value(shown).map_err(|error| error.to_string())?;
    if let Some(object) = value.as_object_mut() {
        object.insert("id".to_owned(), id.into());
    }
    to_command.try_send(Bytes::from(value.to_string())).map_err(|error| error.to_string())?;
    drop(to_command);
    let (output, mut said) = mpsc::channel::<Chunk>(1);
    let io = Io::Streamed { input, typed: None, output, credit: None, terminals: Vec::new() };
    let running = broker.executor.start(&approved, io, None).map_err(|error| error.to_string())?;
    let attended = broker.executor.attend(&approved, running, hear, ());
    // What it prints is read, and of no interest.
    let listened = async { while said.recv().await.is_some() {} };
    let (report, ()) = tokio::join!(attended, listened);
    drop(own);
    match report.map_err(|error| error.to_string())?.outcome {
        Outcome::Exited(Exit::Code(0)) => Ok(()),
        Outcome::Exited(Exit::Code(code)) => Err(format!("exit status {code}")),
        Outcome::Exited(Exit::Signal(number)) => Err(format!("ended by signal {number}")),
        Outcome::TimedOut => Err(format!("took longer than {} s", PATIENCE.as_secs())),
        _ => Err("the server stopped".to_owned()),
    }
}

fn plan(broker: &Broker, command: &str, id: &str, shown: &Shown) -> Result<Plan, String> {
    let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|error| error.to_string());
    let own = broker.environment.own.iter().filter(|(name, _)| name == b"HOME" || name == b"LANG");
    let own = own.map(|(name, value)| [name, b"=".as_slice(), value].concat());
    let told = [
        ("PATH", broker.environment.path.as_str()),
        ("TOOL_APPROVAL_ID", id),
        ("TOOL_APPROVAL_TOOL", &shown.tool),
        ("TOOL_APPROVAL_RULE", &shown.rule),
        ("TOOL_APPROVAL_REASON", &shown.reason),
        ("TOOL_APPROVAL_REPOSITORY", &shown.repository),
        ("TOOL_APPROVAL_COMMAND", &shown.argv.join(" ")),
    ]
    .map(|(name, value)| format!("{name}={value}").into_bytes());
    let environment = own.chain(told).map(string).collect::<Result<_, _>>()?;
    let top = Root::open(Path::new("/")).and_then(|root| root.directory("".as_ref()));
    let directory = top.map_err(|errno| format!("cannot enter /: {}", errno.desc()))?;
    Ok(Plan {
        program: c"/bin/sh".to_owned(),
        arguments: vec![c"sh".to_owned(), c"-c".to_owned(), string(command.as_bytes().to_vec())?],
        own: 3,
        environment,
        fresh: 0,
        directory,
        place: Vec::new(),
        roots: broker.workspace.names(),
        observed: Observed::default(),
        umask: 0o077,
        timeout: Some(PATIENCE),
        limits: Vec::new(),
        redact: None,
        bell: None,
        confinement: None,
        call: broker.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
    })
}
