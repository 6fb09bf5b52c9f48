//! Running the project's script: the bytes that were read, from a copy that no tool can
//! change, as confined as a tool without a gate.
//!
//! Owns: its plan, and its line in the audit, under the name `.project`, which no tool
//! can have. Must not: run anything that was not approved.

use std::ffi::CString;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_policy::definition::sandbox::Sandbox;
use tool_policy::facts::Observed;
use tool_policy::{Approved, Policy};
use tool_protocol::control::signal_name;

use super::{ProjectError, Script, Word};
use crate::audit::{self, Approval, Asked, Decided, Draft, End, Ended, Open, Passed};
use crate::broker::environment::Of;
use crate::broker::plan::of_the_operator;
use crate::broker::setup::{came_to, log_lines};
use crate::broker::{Broker, Peer, confine};
use crate::exec::{Hear, Io, Outcome, Plan, Report};
use crate::os::process::Exit;
use crate::registry::{EnvRules, Origin, Tool};

/// What it is called in the audit, and its HOME. No tool's name begins with a dot.
const NAME: &str = ".project";
/// So much of its output is in the log: it is the agent's to write.
const LOGGED: usize = 256 * 1024;

/// Why it runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cause {
    /// The server starts.
    Start,
    /// Somebody said so.
    Operator(Peer),
}

/// Runs it to its end.
pub(super) async fn run(
    broker: &Broker,
    script: &Script,
    word: &Word,
    cause: Cause,
    number: u32,
    gone: CancellationToken,
) -> Result<(), ProjectError> {
    let failed = ProjectError::Run;
    let copy = copy(&broker.project.copies, script)?;
    let tool = Arc::new(tool(script, &copy));
    let plan = plan(broker, &tool, script, &copy, number).map_err(failed)?;
    let timeout = broker.project.timeout;
    let confined = confine::in_audit(&tool, &plan);
    let approved = of_the_operator(plan).ok_or_else(|| failed("refused".to_owned()))?;
    let open = begin(broker, script, word, cause, number, confined)?;
    let began = Instant::now();
    let ended = start(broker, &approved, gone).await;
    end(broker, open, &ended, began.elapsed());
    came_to(&ended.map_err(failed)?, timeout).map_err(failed)
}

async fn start(
    broker: &Broker,
    approved: &Approved<Plan>,
    gone: CancellationToken,
) -> Result<Outcome, String> {
    let (_orders, orders) = mpsc::channel(1);
    let hear = Hear::new(orders, None, gone, broker.stop.clone());
    // Nobody writes to its input: it is at its end from the start.
    let (_, input) = mpsc::channel(1);
    let (output, lines) = mpsc::channel(1);
    let io = Io::Streamed { input, typed: None, output, credit: None, terminals: Vec::new() };
    let running = broker.executor.start(approved, io, None).map_err(|error| error.to_string())?;
    let attended = broker.executor.attend(approved, running, hear, ());
    let (report, ()) = tokio::join!(attended, log_lines(lines, "setup", LOGGED));
    let Report { outcome, .. } = report.map_err(|error| error.to_string())?;
    Ok(outcome)
}

/// It has an entry in the audit before it starts, or does not start.
fn begin(
    broker: &Broker,
    script: &Script,
    word: &Word,
    cause: Cause,
    number: u32,
    confined: &'static str,
) -> Result<Option<Open>, ProjectError> {
    let Some(audit) = &broker.audit else { return Ok(None) };
    let peer = match cause {
        Cause::Start => audit::Peer {
            socket: "",
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        },
        Cause::Operator(peer) => audit::Peer { socket: "control", uid: peer.uid, gid: peer.gid },
    };
    let call_id = broker.facts.call_id(number);
    let first = broker.workspace.first();
    let asked = Asked {
        call_id: &call_id,
        tool: NAME.as_bytes(),
        cwd: Some(first),
        peer,
        received: SystemTime::now(),
    };
    let args = [script.path.as_bytes()];
    let draft = Draft::new(&asked, args.iter().copied());
    let approval = Approval {
        id: &word.hash,
        by_uid: word.by,
        at: UNIX_EPOCH + Duration::from_secs(word.at),
        until: None,
        granted: true,
    };
    let decided = Decided {
        directory: Some(first),
        definition: Some(&script.hash),
        decision: Some("allow"),
        rule: Some("approved"),
        confined: Some(confined),
        approval: Some(approval),
        waited: Some(Duration::ZERO),
        ..Decided::default()
    };
    audit.begin(draft, &decided).map(Some).map_err(|error| ProjectError::Run(error.to_string()))
}

fn end(broker: &Broker, open: Option<Open>, ended: &Result<Outcome, String>, took: Duration) {
    let (Some(audit), Some(open)) = (&broker.audit, open) else { return };
    let (end, exit_code, signal) = match ended {
        Err(_) => (End::NotStarted, None, None),
        Ok(Outcome::Exited(Exit::Code(code))) => (End::Exited, Some(*code), None),
        Ok(Outcome::Exited(Exit::Signal(number))) => (End::Signaled, None, signal_name(*number)),
        Ok(Outcome::TimedOut) => (End::TimedOut, None, None),
        // Who approved it took that back.
        Ok(Outcome::CallerGone) => (End::CallerGone, None, None),
        Ok(Outcome::Interrupted) => (End::Interrupted, None, None),
        Ok(Outcome::OutputTooLarge(_)) => (End::OutputTooLarge, None, None),
    };
    let duration = ended.is_ok().then_some(took);
    let bytes = Passed::default();
    audit.end(open, &Ended { end, exit_code, signal, code: None, duration, bytes });
}

/// The bytes that were read, where the root's owner reads and nobody but the server
/// writes. Written anew each time, and no other copy stays.
fn copy(directory: &Path, script: &Script) -> Result<PathBuf, ProjectError> {
    let path = directory.join(&script.hash);
    let written = || -> io::Result<()> {
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => std::fs::set_permissions(directory, Permissions::from_mode(0o755))?,
        }
        for entry in std::fs::read_dir(directory)? {
            std::fs::remove_file(entry?.path())?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o444).open(&path)?;
        file.write_all(&script.bytes)?;
        file.set_permissions(Permissions::from_mode(0o444))
    };
    match written() {
        Ok(()) => Ok(path),
        Err(source) => Err(ProjectError::Write { path, source }),
    }
}

/// What confines it is made for tools.
fn tool(script: &Script, copy: &Path) -> Tool {
    let interpreter = script.interpreter.first().map(PathBuf::from).unwrap_or_default();
    Tool {
        name: NAME.to_owned(),
        binary: interpreter,
        any: false,
        wrapper: None,
        timeout: Duration::ZERO,
        timeout_set: false,
        policy: Arc::new(Policy::default()),
        hash: script.hash.clone(),
        origin: Origin { file: PathBuf::from(&script.path), line: 1 },
        env: EnvRules { forward: Vec::new(), inherit: Vec::new(), set: Vec::new() },
        concurrent: None,
        rate: None,
        limits: Vec::new(),
        stream: false,
        sandbox: Sandbox { read: vec![copy.to_owned()], ..Sandbox::default() },
        sandbox_said: true,
        gates: Arc::default(),
        signing: None,
        setup: None,
        description: None,
        warnings: Vec::new(),
    }
}

fn plan(
    broker: &Broker,
    tool: &Tool,
    script: &Script,
    copy: &Path,
    number: u32,
) -> Result<Plan, String> {
    let Broker { workspace, confines, homes, .. } = broker;
    let ground = broker.executor.ground();
    let refused = |refusal: tool_protocol::Refusal| refusal.message;
    confines.heed(&broker.registry.snapshot());
    let first = workspace.first();
    let footing = confines.footing(ground, workspace, homes, tool, first, false);
    let footing = footing.map_err(refused)?;
    let confinement = confines.confine(ground, workspace, tool, &footing, None, false);
    let confinement = confinement.map_err(refused)?;
    let root = workspace.first_root().ok_or("there is no workspace root")?;
    let directory = root.directory("".as_ref());
    let directory = directory.map_err(|errno| format!("cannot enter it: {}", errno.desc()))?;
    let home = footing.home.as_os_str().as_bytes();
    let temporary = [home, b"/tmp"].concat();
    let of = Of { tool, home, temporary: Some(&temporary), offered: &[], cwd: first, args: &[] };
    let string = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
    let roots: Vec<&[u8]> = workspace.paths().map(|path| path.as_os_str().as_bytes()).collect();
    let roots = [b"WORKSPACE=".as_slice(), &roots.join(&b':')].concat();
    let mut environment = broker.environment.build(&of);
    environment.push(string(&roots)?);
    let words = script.interpreter.iter().map(|word| string(word.as_bytes()));
    let mut arguments = words.collect::<Result<Vec<_>, _>>()?;
    let program = arguments.first().cloned().ok_or("it has no interpreter")?;
    arguments.push(string(copy.as_os_str().as_bytes())?);
    Ok(Plan {
        program,
        own: arguments.len(),
        arguments,
        environment,
        fresh: 0,
        directory,
        place: first.to_vec(),
        roots: workspace.names(),
        observed: Observed::default(),
        umask: 0o022,
        timeout: Some(broker.project.timeout),
        limits: Vec::new(),
        redact: None,
        bell: None,
        confinement: Some(confinement),
        call: number,
    })
}
