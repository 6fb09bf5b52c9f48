//! A program that a verb needs, run to its end: bounded in time and output, and in a
//! process group of its own, so that what it started ends with it.
//!
//! Owns: that one run. Must not: be used for a call or by a server; those are `spawn`'s.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often it is asked whether to go on.
const TICK: u8 = 50;

/// What is kept of its stderr.
const COMPLAINT: usize = 16 * 1024;

/// What is run.
#[derive(Debug)]
pub(crate) struct Helper<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) args: &'a [&'a OsStr],
    /// Its whole environment.
    pub(crate) env: &'a [(String, std::ffi::OsString)],
    pub(crate) directory: &'a Path,
    pub(crate) timeout: Duration,
    /// The most bytes of its output.
    pub(crate) output: usize,
}

/// How it came out.
#[derive(Debug)]
pub(crate) struct Ran {
    /// It ended by itself, with status 0.
    pub(crate) ok: bool,
    pub(crate) stdout: Vec<u8>,
    /// The beginning.
    pub(crate) stderr: Vec<u8>,
    /// Why it was ended.
    pub(crate) stopped: Option<Stopped>,
}

/// Why it was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It took too long.
    Late,
    /// It said too much.
    Output,
    /// `go_on` said no.
    Unwanted,
}

/// Runs it with no input. `go_on` is asked again and again.
pub(crate) fn run(helper: &Helper<'_>, go_on: &mut dyn FnMut() -> bool) -> io::Result<Ran> {
    #[allow(clippy::disallowed_methods, reason = "a verb's helper: no server, no call")]
    let mut command = Command::new(helper.program);
    command
        .args(helper.args)
        .env_clear()
        .envs(helper.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(helper.directory).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
    }
    let mut child = command.spawn()?;
    let watched = watch(&mut child, helper, go_on);
    if !matches!(watched, Ok((_, _, None))) {
        // Not waited for yet: the number is still its own.
        if let Ok(group) = i32::try_from(child.id()) {
            let _gone = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
    let status = child.wait()?;
    let (stdout, stderr, stopped) = watched?;
    Ok(Ran { ok: stopped.is_none() && status.success(), stdout, stderr, stopped })
}

type Watched = (Vec<u8>, Vec<u8>, Option<Stopped>);

/// Reads both pipes to their ends, as long as that is wanted.
fn watch(
    child: &mut Child,
    helper: &Helper<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> io::Result<Watched> {
    let deadline = Instant::now() + helper.timeout;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    for pipe in [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)].into_iter().flatten()
    {
        fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while out.is_some() || err.is_some() {
        let ends = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)];
        let mut ends: Vec<PollFd<'_>> =
            ends.into_iter().flatten().map(|end| PollFd::new(end, PollFlags::POLLIN)).collect();
        poll(&mut ends, TICK)?;
        out = take(out, &mut stdout, helper.output + 1)?;
        // What comes after the beginning is read, and forgotten.
        err = take(err, &mut stderr, COMPLAINT)?;
        let stopped = if stdout.len() > helper.output {
            Some(Stopped::Output)
        } else if Instant::now() > deadline {
            Some(Stopped::Late)
        } else if !go_on() {
            Some(Stopped::Unwanted)
        } else {
            None
        };
        if stopped.is_some() {
            return Ok((stdout, stderr, stopped));
        }
    }
    Ok((stdout, stderr, None))
}

/// Reads what is there; `None` is the end of it.
fn take<R: Read>(end: Option<R>, into: &mut Vec<u8>, most: usize) -> io::Result<Option<R>> {
    let Some(mut end) = end else { return Ok(None) };
    let mut piece = [0; 16 * 1024];
    loop {
        match end.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => {
                let room = most.saturating_sub(into.len());
                into.extend(piece.iter().take(count.min(room)));
                if into.len() >= most {
                    return Ok(Some(end));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(end)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Duration, output: usize, go_on: bool) -> Ran {
        let args = ["-c", script].map(OsStr::new);
        let helper = Helper {
            program: OsStr::new("/bin/sh"),
            args: &args,
            env: &[("WORD".to_owned(), "told".into())],
            directory: Path::new("/"),
            timeout,
            output,
        };
        run(&helper, &mut || go_on).unwrap()
    }

    #[test]
    fn a_helper_is_run_with_its_own_environment_and_bounded() {
        let long = Duration::from_secs(120);
        let ran = sh("echo $WORD$HOME; echo no >&2; exit 3", long, 100, true);
        assert_eq!((ran.ok, ran.stopped), (false, None));
        assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"told\n"[..], &b"no\n"[..]));
        assert!(sh("exit 0", long, 0, true).ok);
        let ran = sh("yes", long, 1_000, true);
        assert_eq!((ran.ok, ran.stopped), (false, Some(Stopped::Output)));
        let begun = Instant::now();
        // What it started holds the pipes as well, and ends with it.
        let ran = sh("sleep 600 & sleep 600", Duration::from_millis(100), 10, true);
        assert_eq!(ran.stopped, Some(Stopped::Late));
        assert_eq!(sh("sleep 600", long, 10, false).stopped, Some(Stopped::Unwanted));
        assert!(begun.elapsed() < long);
    }
}
