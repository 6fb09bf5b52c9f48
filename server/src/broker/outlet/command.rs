//! Credentials that a command prints: it runs as a process of the server's own.
//!
//! Owns: what such a process is given, which is nothing but its words and a PATH. It is
//! started and reaped as tools are, beneath the server's tree, and ended with all that
//! it started once nobody waits for it. Must not: show a byte of what it prints.

use std::ffi::CString;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_gate::credential::{Run, Running, Task};
use tool_policy::facts::Observed;
use zeroize::Zeroizing;

use crate::broker::Broker;
use crate::broker::plan::of_the_operator;
use crate::exec::{Hear, Io, Outcome, Plan};
use crate::os::process::Exit;
use crate::os::root::Root;

/// The gate gives up before that; this ends what nobody heard of.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs the commands of credentials.
#[derive(Debug)]
pub(crate) struct Commands(pub(crate) Weak<Broker>);

impl Run for Commands {
    fn run<'a>(&'a self, task: Task<'a>) -> Running<'a> {
        Box::pin(async move {
            let broker = self.0.upgrade().ok_or("the server stops")?;
            let plan = plan(&broker, task.words)?;
            let longest = task.longest;
            // A task of its own: whoever waits may be gone before what it started is.
            let gone = CancellationToken::new();
            let waits = gone.clone().drop_guard();
            let running = tokio::spawn(print(broker, plan, gone, longest));
            let printed = running.await.map_err(|_gone| "the server stops".to_owned())?;
            drop(waits);
            printed
        })
    }
}

async fn print(
    broker: std::sync::Arc<Broker>,
    plan: Plan,
    gone: CancellationToken,
    longest: usize,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let approved = of_the_operator(plan).ok_or("refused")?;
    let (_orders, orders) = mpsc::channel(1);
    let hear = Hear::new(orders, None, gone, broker.stop.clone());
    let executor = &broker.executor;
    let running =
        executor.start(&approved, Io::Captured, None).map_err(|error| error.to_string())?;
    let report = executor.attend(&approved, running, hear, ()).await;
    let report = report.map_err(|error| error.to_string())?;
    let stdout = Zeroizing::new(report.stdout);
    drop(Zeroizing::new(report.stderr));
    match report.outcome {
        Outcome::Exited(Exit::Code(0)) if stdout.len() <= longest => Ok(stdout),
        Outcome::Exited(Exit::Code(0)) | Outcome::OutputTooLarge(_) => {
            Err(format!("it prints more than {longest} bytes"))
        }
        Outcome::Exited(Exit::Code(code)) => Err(format!("it ended with status {code}")),
        Outcome::Exited(Exit::Signal(number)) => Err(format!("it was ended by signal {number}")),
        Outcome::TimedOut | Outcome::CallerGone | Outcome::Interrupted => {
            Err("it was ended".to_owned())
        }
    }
}

fn plan(broker: &Broker, words: &[String]) -> Result<Plan, String> {
    let string = |word: &String| CString::new(word.as_str()).map_err(|error| error.to_string());
    let arguments = words.iter().map(string).collect::<Result<Vec<_>, _>>()?;
    let program = arguments.first().ok_or("it names no program")?.clone();
    let top = |errno: nix::errno::Errno| format!("/ cannot be entered: {}", errno.desc());
    let directory = Root::open("/".as_ref()).map_err(top)?.directory("".as_ref()).map_err(top)?;
    Ok(Plan {
        own: arguments.len(),
        program,
        arguments,
        environment: vec![
            c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ],
        directory,
        place: b"/".to_vec(),
        roots: broker.workspace.names(),
        observed: Observed::default(),
        umask: 0o077,
        timeout: Some(LONGEST),
        limits: Vec::new(),
        redact: None,
        bell: None,
        confinement: None,
        fresh: 0,
        call: broker.calls.fetch_add(1, Ordering::Relaxed),
    })
}
