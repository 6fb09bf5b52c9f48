//! This program in the place of ssh-keygen, as git starts it for a signature.
//!
//! git starts `gpg.ssh.program` with `-Y sign -n git -f KEY FILE`, and reads FILE.sig.
//! Here there is no key: the bytes go to the server by the call's bell, and the
//! signature comes back. Everything else that git asks of ssh-keygen (`-Y verify` and
//! the like) needs no key, and ssh-keygen does it.
//!
//! It runs confined, as part of a call. Must not: know a setting, or decide anything.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use nix::errno::Errno;
use tool_gate::signing::{Answered, LARGEST, request};

use crate::os::bell;

/// The first word of everything that git asks of ssh-keygen about signatures.
pub(super) const FLAG: &str = "-Y";
/// As ssh-keygen ends where something is wrong.
const FAILED: u8 = 255;

/// What is asked for, by words that stand behind `-Y`.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    if words.first().is_none_or(|word| word != "sign") {
        return ssh_keygen(words);
    }
    match sign(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            drop(writeln!(std::io::stderr(), "{why}"));
            ExitCode::from(FAILED)
        }
    }
}

fn sign(words: &[OsString]) -> Result<(), String> {
    let (namespace, path) = asked(words).ok_or("signing: -n NAMESPACE and one file are needed")?;
    let number = std::env::var(tool_gate::signing::BELL).ok();
    let number: RawFd = number.and_then(|number| number.parse().ok()).ok_or_else(|| {
        "nothing is signed here: the tool's definition has no [signing], or git was started \
         without its environment"
            .to_owned()
    })?;
    let shown = path.display();
    let cannot =
        |what: &str, error: &dyn std::fmt::Display| format!("cannot {what} {shown}: {error}");
    let file = File::open(path).map_err(|error| cannot("read", &error))?;
    let mut message = Vec::new();
    // One byte more than may be: too much is refused, never cut.
    let most = u64::try_from(LARGEST).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut message).map_err(|error| cannot("read", &error))?;
    let signature = ask(number, &request(namespace.as_bytes(), &message))?;
    let mut name = path.to_owned();
    name.push(".sig");
    std::fs::write(&name, signature).map_err(|error| cannot("write beside", &error))
}

/// The namespace and the file: of the options only what they are counts.
fn asked(words: &[OsString]) -> Option<(&OsStr, &OsStr)> {
    let (mut namespace, mut file) = (None, None);
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"-n" => namespace = Some(words.next()?),
            // The key, which is another, and options about hashes.
            b"-f" | b"-O" => drop(words.next()?),
            // The key is in an agent: as good as anywhere.
            b"-U" | b"-q" | b"--" => {}
            [b'-', _, ..] => return None,
            _ if file.is_some() => return None,
            _ => file = Some(word),
        }
    }
    Some((namespace?, file?))
}

fn ask(number: RawFd, request: &[u8]) -> Result<String, String> {
    let gone = |_| "the broker does not answer: the call that this belongs to is over".to_owned();
    let lost = |_| "the broker broke off: try again".to_owned();
    let mut stream = bell::ring(number).map_err(gone)?;
    // A refusal may come before all was sent.
    stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write)).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(lost)?;
    match Answered::parse(&answer) {
        Some(Answered::Signed(signature)) => Ok(signature),
        Some(Answered::Refused(why)) => Err(why),
        None => Err("the broker broke off: try again".to_owned()),
    }
}

/// The real one takes this process over.
fn ssh_keygen(words: &[OsString]) -> ExitCode {
    let string = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
    let mut arguments = vec![c"ssh-keygen".to_owned(), string(FLAG.into())];
    arguments.extend(words.iter().cloned().map(string));
    let Err(errno) = nix::unistd::execvp(c"ssh-keygen", &arguments);
    let why = match errno {
        Errno::ENOENT => "it is not installed beside the tool".to_owned(),
        errno => errno.to_string(),
    };
    drop(writeln!(std::io::stderr(), "cannot run ssh-keygen, which checks signatures: {why}"));
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_is_read() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, read) in [
            ("sign -n git -f /k /tmp/b", Some(("git", "/tmp/b"))),
            ("sign -n git -f /k -U /tmp/b", Some(("git", "/tmp/b"))),
            ("sign -U -O hashalg=sha512 -f /k b -n file", Some(("file", "b"))),
            ("sign -n git -f /k", None),
            ("sign -f /k b", None),
            ("sign -n git a b", None),
            ("sign -n git -x a", None),
            ("sign a -n", None),
        ] {
            let words = words(line);
            let found = asked(&words).map(|(n, f)| (n.to_str().unwrap(), f.to_str().unwrap()));
            assert_eq!(found, read, "{line}");
        }
    }
}
