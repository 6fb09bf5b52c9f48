//! Signatures, checked by git and ssh-keygen themselves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says so by failing"
)]
#![allow(clippy::disallowed_methods, reason = "a test starts programs")]

use std::fs;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tool_gate::signing::{
    Answered, Grant, Key, KeyError, KeySource, KeyText, LARGEST, NO_GATE, Object, ObjectError,
    armored, request, serve, understand,
};
use tool_gate::{Answer, Judge, Request};
use tool_policy::definition::gate::Adapter;
use zeroize::Zeroizing;

const COMMIT: &[u8] = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
    parent 1111111111111111111111111111111111111111\n\
    author A U Thor <author@example.com> 1700000000 +0100\n\
    committer C <c@example.com> 1700000001 -0000\n\nsubject\n\nbody\n";
const TAG: &[u8] = b"object 1111111111111111111111111111111111111111\ntype commit\n\
    tag v1.0\ntagger T <t@example.com> 1700000000 +0000\n\nfirst release\n";

fn run(dir: &Path, program: &str, args: &[&str], input: &[u8]) -> (bool, String) {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// A key made by ssh-keygen.
fn key(dir: &Path, kind: &[&str]) -> Vec<u8> {
    let path = dir.join("key");
    fs::remove_file(&path).ok();
    let mut args = vec!["-q", "-N", "", "-C", "a comment", "-f", path.to_str().unwrap(), "-t"];
    args.extend(kind);
    let (good, said) = run(dir, "ssh-keygen", &args, b"");
    assert!(good, "{said}");
    fs::read(path).unwrap()
}

fn allow(dir: &Path, key: &Key) {
    fs::write(dir.join("allowed"), format!("* {}\n", key.public_line())).unwrap();
}

const KINDS: [&[&str]; 3] = [&["ed25519"], &["ecdsa", "-b", "256"], &["ecdsa", "-b", "384"]];

#[test]
fn ssh_keygen_takes_a_signature_over_what_was_signed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        // Numbers in a key of ECDSA begin with zeros now and then.
        for _ in 0..5 {
            let key = Key::read(&key(dir.path(), kind)).unwrap();
            allow(dir.path(), &key);
            let signature = armored(&key, COMMIT).unwrap();
            fs::write(dir.path().join("sig"), &signature).unwrap();
            let verify = |namespace: &str, message: &[u8]| {
                let args =
                    ["-Y", "verify", "-n", namespace, "-f", "allowed", "-I", "x", "-s", "sig"];
                run(dir.path(), "ssh-keygen", &args, message)
            };
            let (good, said) = verify("git", COMMIT);
            assert!(good && said.starts_with("Good \"git\" signature"), "{kind:?}: {said}");
            assert!(!verify("git", TAG).0, "another message");
            assert!(!verify("file", COMMIT).0, "another namespace");
        }
    }
}

#[test]
fn a_signature_is_the_one_that_ssh_keygen_makes() {
    let dir = tempfile::tempdir().unwrap();
    let key = Key::read(&key(dir.path(), &["ed25519"])).unwrap();
    fs::write(dir.path().join("buffer"), COMMIT).unwrap();
    let (good, said) =
        run(dir.path(), "ssh-keygen", &["-Y", "sign", "-n", "git", "-f", "key", "buffer"], b"");
    assert!(good, "{said}");
    let theirs = fs::read_to_string(dir.path().join("buffer.sig")).unwrap();
    assert_eq!(armored(&key, COMMIT).unwrap(), theirs);
}

#[test]
fn git_takes_a_signed_commit_and_a_signed_tag() {
    let dir = tempfile::tempdir().unwrap();
    let key = Key::read(&key(dir.path(), &["ed25519"])).unwrap();
    allow(dir.path(), &key);
    let git = |args: &[&str], input: &[u8]| {
        let setting = ["-c", "gpg.ssh.allowedSignersFile=allowed", "-c", "gpg.format=ssh"];
        run(dir.path(), "git", &[&setting[..], args].concat(), input)
    };
    assert!(git(&["init", "-q", "."], b"").0);
    let signed = |message: &[u8], kind: &str| {
        let signature = armored(&key, message).unwrap();
        let end = message.windows(2).position(|pair| pair == b"\n\n").unwrap() + 1;
        let header = format!("gpgsig {}\n", signature.trim_end().replace('\n', "\n "));
        let whole = match kind {
            "commit" => [&message[..end], header.as_bytes(), &message[end..]].concat(),
            _ => [message, signature.as_bytes()].concat(),
        };
        let (good, id) = git(&["hash-object", "-t", kind, "--literally", "-w", "--stdin"], &whole);
        assert!(good, "{id}");
        id.trim().to_owned()
    };
    let (good, said) = git(&["verify-commit", &signed(COMMIT, "commit")], b"");
    assert!(good && said.contains("Good \"git\" signature"), "{said}");
    let (good, said) = git(&["verify-tag", &signed(TAG, "tag")], b"");
    assert!(good && said.contains("Good \"git\" signature"), "{said}");
}

#[test]
fn keys_that_cannot_be_used_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let good = key(dir.path(), &["ed25519"]);
    let kind = Key::read(&key(dir.path(), &["rsa", "-b", "2048"])).unwrap_err();
    assert_eq!(kind, KeyError::Kind("ssh-rsa".to_owned()));
    fs::remove_file(dir.path().join("key")).unwrap();
    let args = ["-q", "-t", "ed25519", "-N", "a passphrase", "-f", "key"];
    assert!(run(dir.path(), "ssh-keygen", &args, b"").0);
    let locked = fs::read(dir.path().join("key")).unwrap();
    assert_eq!(Key::read(&locked).unwrap_err(), KeyError::Encrypted);
    for text in
        [&b""[..], b"ghp_0123", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
    {
        assert_eq!(Key::read(text).unwrap_err(), KeyError::NotOpenSsh);
    }
    // Cut off anywhere, or one digit changed: an error, or the same key.
    let public = Key::read(&good).unwrap().public().to_vec();
    for at in 0..good.len() - 1 {
        assert!(Key::read(&good[..at]).is_err(), "{at}");
        let mut changed = good.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        if let Ok(key) = Key::read(&changed) {
            assert_eq!(key.public(), public, "{at}");
        }
    }
    assert!(!format!("{:?}", Key::read(&good).unwrap()).contains("b3BlbnNzaC"));
}

#[test]
fn only_what_git_writes_is_a_commit_or_a_tag() {
    assert!(matches!(Object::parse(COMMIT), Ok(Object::Commit { parents: 1, .. })));
    assert!(matches!(Object::parse(TAG), Ok(Object::Tag { name: b"v1.0", .. })));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (commit, tag) = (text(COMMIT), text(TAG));
    let id256 = "1".repeat(64);
    let extra =
        commit.replace("-0000\n", "-0000\nencoding ISO-8859-1\nmergetag object 1\n type x\n \n");
    assert!(Object::parse(extra.as_bytes()).is_ok());
    // Whatever follows the first line, it stays what it is.
    let bad = [
        commit.replace("tree ", "Tree "),
        commit.replace("4b825", "4B825"),
        commit.replace("4b825", ""),
        commit.replace("1111111111111111111111111111111111111111", &id256),
        commit.replace("parent 1", "parent  1"),
        commit
            .replace("author A U Thor <author@example.com>", "author A U Thor author@example.com"),
        commit.replace("author A U Thor", "author A <x@y> U Thor"),
        commit.replace("1700000000 +0100", "1700000000"),
        commit.replace("1700000000", "-1700000000"),
        commit.replace("+0100", "+0100 extra"),
        commit.replace("committer", "author"),
        commit.replace("-0000\n", "-0000\nauthor E <e@example.com> 1 +0000\n"),
        commit.replace("-0000\n", "-0000\n folded\n"),
        commit.replace("-0000\n", "-0000\nnoblank\n"),
        commit.replace("-0000\n", "-0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n"),
        commit.replace("-0000\n\nsubject\n\nbody\n", "-0000\n"),
        commit.replace("subject", "sub\0ject"),
        commit.replace("A U Thor", "A \u{1b}[2J"),
        format!("\n{commit}"),
        tag.replace("type commit", "type email"),
        tag.replace("tag v1.0", "tag ../v1.0"),
        tag.replace("tag v1.0", "tag -v1.0"),
        tag.replace("tag v1.0", "tag v1.0.lock"),
        tag.replace("tag v1.0", "tag v1 0"),
        tag.replace("tag v1.0", "tag "),
        tag.replace("tagger T <t@example.com> 1700000000 +0000\n", ""),
        tag.replace("+0000\n", "+0000\nextra header\n"),
        String::new(),
        "Subject: pay me\n\nFrom: x".to_owned(),
    ];
    for text in bad {
        assert!(Object::parse(text.as_bytes()).is_err(), "{text}");
    }
    let nul = [COMMIT, b"\0"].concat();
    assert_eq!(Object::parse(&nul), Err(ObjectError::Nul));
    // Cut anywhere in its header it is none.
    let header = commit.find("\n\n").unwrap();
    (0..=header).for_each(|at| assert!(Object::parse(&COMMIT[..at]).is_err(), "{at}"));
}

/// What a commit that this machine's git makes looks like is understood.
#[test]
fn what_git_itself_writes_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=Ä Name", "-c", "user.email=at home"];
        let (good, said) = run(dir.path(), "git", &[&who[..], args].concat(), b"");
        assert!(good, "{args:?}: {said}");
        said
    };
    for format in ["sha1", "sha256"] {
        git(&["init", "-q", "--object-format", format, format]);
        let at = |args: &[&str]| git(&[&["-C", format], args].concat());
        at(&["commit", "-q", "--allow-empty", "-m", "one"]);
        at(&["checkout", "-q", "-b", "other"]);
        at(&["-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-m", "two"]);
        at(&["tag", "-a", "-m", "a tag", "v1/ä", "HEAD"]);
        at(&["checkout", "-q", "-"]);
        at(&["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", ""]);
        at(&["merge", "-q", "--no-ff", "-m", "merge", "v1/ä"]);
        for (kind, name) in
            [("commit", "HEAD"), ("commit", "HEAD^1"), ("commit", "HEAD^2"), ("tag", "v1/ä")]
        {
            let object = at(&["cat-file", kind, name]);
            assert!(Object::parse(object.as_bytes()).is_ok(), "{object}");
        }
    }
}

struct Script {
    answers: Mutex<Vec<Answer>>,
    asked: Mutex<Vec<Request>>,
    refused: Mutex<Vec<String>>,
}

impl Judge for Script {
    fn judge<'a>(
        &'a self,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Vec<Answer>> + Send + 'a>> {
        self.asked.lock().unwrap().push(request.clone());
        let answers = self.answers.lock().unwrap().clone();
        Box::pin(async move { answers })
    }

    fn refused(&self, _adapter: Option<Adapter>, _host: &str, why: &str) {
        self.refused.lock().unwrap().push(why.to_owned());
    }
}

struct Text(Result<Vec<u8>, String>);

impl KeySource for Text {
    fn name(&self) -> String {
        "file:/k".to_owned()
    }

    fn read(&self) -> Pin<Box<dyn Future<Output = KeyText> + Send + '_>> {
        let text = self.0.clone().map(Zeroizing::new);
        Box::pin(async { text })
    }
}

/// Asks the service; its answer, and what the judge saw.
fn ask(
    key: Result<Vec<u8>, String>,
    answers: Vec<Answer>,
    bytes: &[u8],
) -> (Answered, Arc<Script>) {
    ask_with(Box::new(Text(key)), answers, bytes)
}

fn ask_with(
    key: Box<dyn KeySource>,
    answers: Vec<Answer>,
    bytes: &[u8],
) -> (Answered, Arc<Script>) {
    let judge = Arc::new(Script {
        answers: Mutex::new(answers),
        asked: Mutex::default(),
        refused: Mutex::default(),
    });
    let grant = Grant { key, judge: Arc::clone(&judge) as Arc<dyn Judge> };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answered = runtime.block_on(async {
        let (ours, theirs) = duplex(4096);
        let asking = async {
            let (mut read, mut write) = tokio::io::split(ours);
            // Too much is not read to its end.
            write.write_all(bytes).await.ok();
            write.shutdown().await.ok();
            let mut answer = Vec::new();
            read.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let (answer, ()) = tokio::join!(asking, serve(theirs, &grant));
        Answered::parse(&answer).expect("an answer")
    });
    (answered, judge)
}

#[test]
fn what_is_signed_is_what_the_judge_was_shown() {
    let dir = tempfile::tempdir().unwrap();
    let text = key(dir.path(), &["ed25519"]);
    let key = Key::read(&text).unwrap();
    for (message, facts, shown) in [
        (
            COMMIT,
            "object=commit author=author@example.com committer=c@example.com tag=",
            "sign a commit \"subject\" by A U Thor <author@example.com>, committed by C <c@example.com>, \
             tree 4b825dc642cb, parent 111111111111, SHA-256 of all but its times ",
        ),
        (
            TAG,
            "object=tag author= committer=t@example.com tag=v1.0",
            "sign the tag v1.0 of the commit 111111111111, \"first release\", by T <t@example.com>, \
             SHA-256 of all but its times ",
        ),
    ] {
        let (answered, judge) =
            ask(Ok(text.clone()), vec![Answer::Allowed], &request(b"git", message));
        assert_eq!(answered, Answered::Signed(armored(&key, message).unwrap()));
        let asked = judge.asked.lock().unwrap();
        let [asked] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!((asked.gate, asked.subcommand), (NO_GATE, &["sign"][..]));
        assert_eq!(asked.credential.as_deref(), Some("file:/k"));
        let (known, digest) = asked.parts[0].shown.split_at(asked.parts[0].shown.len() - 64);
        assert_eq!(known, format!("by the key {}, {shown}", fingerprint(dir.path())));
        assert!(digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        let known: Vec<String> = asked.parts[0]
            .facts
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8(value.to_bytes()).unwrap()))
            .collect();
        assert_eq!(known.join(" "), facts);
    }
}

/// As ssh-keygen has it.
fn fingerprint(dir: &std::path::Path) -> String {
    let mut keygen = std::process::Command::new("ssh-keygen");
    let said = keygen.arg("-lf").arg(dir.join("key.pub")).output().unwrap().stdout;
    String::from_utf8(said).unwrap().split(' ').nth(1).unwrap().to_owned()
}

/// What is asked about again a moment later is the same, and nothing else is.
#[test]
fn an_answer_is_for_all_that_is_signed_but_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let text = key(dir.path(), &["ed25519"]);
    let shown = |message: &[u8]| {
        let (_, judge) = ask(Ok(text.clone()), vec![Answer::Allowed], &request(b"git", message));
        let asked = judge.asked.lock().unwrap();
        asked[0].parts[0].shown.clone()
    };
    for message in [COMMIT, TAG] {
        let first = shown(message);
        let message = String::from_utf8(message.to_vec()).unwrap();
        let mut later = String::new();
        for line in message.split_inclusive('\n') {
            later.push_str(&match line.split_once("> ") {
                Some((who, _)) => format!("{who}> 1999999999 +0100\n"),
                None => line.to_owned(),
            });
        }
        assert_ne!(later, message);
        assert_eq!(shown(later.as_bytes()), first);
        let signed_off = format!("{message}\nSigned-off-by: The Boss <boss@example.com>\n");
        assert_ne!(shown(signed_off.as_bytes()), first);
        let dated = format!("{message}\nauthor x> 1\n");
        assert_ne!(shown(dated.as_bytes()), shown(dated.replace("> 1", "> 2").as_bytes()));
    }
    let other =
        String::from_utf8(COMMIT.to_vec()).unwrap().replace("4b825dc642cb6", "4b825dc642cb7");
    assert_ne!(shown(other.as_bytes()), shown(COMMIT));
}

/// A key that is put in the place of the one that somebody was asked about.
struct Changing(Mutex<Vec<Vec<u8>>>);

impl KeySource for Changing {
    fn name(&self) -> String {
        "file:/k".to_owned()
    }

    fn read(&self) -> Pin<Box<dyn Future<Output = KeyText> + Send + '_>> {
        let text = self.0.lock().unwrap().pop().unwrap();
        Box::pin(async { Ok(Zeroizing::new(text)) })
    }
}

#[test]
fn nothing_is_signed_by_another_key_than_was_asked_about() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let keys = dirs.each_ref().map(|dir| key(dir.path(), &["ed25519"])).to_vec();
    let source = Box::new(Changing(Mutex::new(keys)));
    let (answered, judge) = ask_with(source, vec![Answer::Allowed], &request(b"git", COMMIT));
    let Answered::Refused(line) = answered else { panic!("signed") };
    assert!(line.contains("another one than was asked about"), "{line}");
    assert_eq!(judge.asked.lock().unwrap().len(), 1);
}

#[test]
fn nothing_is_signed_that_is_refused_or_undecided() {
    let dir = tempfile::tempdir().unwrap();
    let text = key(dir.path(), &["ed25519"]);
    let refusal = Answer::Refused {
        rule: "no-tags".to_owned(),
        reason: "tags are made by people".to_owned(),
        instead: Some("ask for one".to_owned()),
    };
    let (answered, _) = ask(Ok(text.clone()), vec![refusal], &request(b"git", TAG));
    let line = "signing was refused: tags are made by people; ask for one";
    assert_eq!(answered, Answered::Refused(line.to_owned()));
    for answers in [vec![], vec![Answer::Allowed, Answer::Allowed]] {
        let (answered, _) = ask(Ok(text.clone()), answers, &request(b"git", TAG));
        assert!(matches!(answered, Answered::Refused(_)));
    }
    let (answered, judge) =
        ask(Err("no key there".to_owned()), vec![Answer::Allowed], &request(b"git", TAG));
    assert_eq!(answered, Answered::Refused("no key there".to_owned()));
    assert_eq!(judge.refused.lock().unwrap().len(), 1);
}

#[test]
fn nobody_is_asked_about_what_is_not_a_commit_or_a_tag() {
    // An SSH login as PROTOCOL.sshsig warns of, a file, an e-mail; git's own word in
    // the wrong namespace; names that hide behind a NUL; too much.
    let login =
        [&b"\0\0\0\x20"[..], &[7; 32], b"\x32\0\0\0\x04root\0\0\0\x0essh-connection"].concat();
    let large = [COMMIT, &vec![b'x'; LARGEST]].concat();
    let attacks: Vec<Vec<u8>> = vec![
        request(b"git", &login),
        request(b"git", b"#!/bin/sh\nexit\n"),
        request(b"git", b"Subject: x\n\nhello"),
        request(b"git", b"certificate version 0.1\npusher x <y@z> 1 +0000\n"),
        request(b"file", COMMIT),
        request(b"", COMMIT),
        request(b"git\0file", COMMIT),
        request(b"git ", COMMIT),
        request(b"GIT", COMMIT),
        request(&[b'n'; 5000], COMMIT),
        request(b"git", &[COMMIT, b"\0tree"].concat()),
        request(b"git", &large),
        b"git".to_vec(),
        Vec::new(),
    ];
    for attack in attacks {
        let (answered, judge) = ask(Ok(Vec::new()), vec![Answer::Allowed], &attack);
        let Answered::Refused(line) = answered else { panic!("signed") };
        assert!(!line.contains('\n') && line.len() < 400, "{line}");
        assert!(judge.asked.lock().unwrap().is_empty(), "{line}");
        assert_eq!(*judge.refused.lock().unwrap(), [line]);
    }
    let most = [COMMIT, &vec![b'x'; LARGEST - COMMIT.len()]].concat();
    assert!(understand(&request(b"git", &most)).is_ok());
}

#[test]
fn what_an_approver_sees_is_one_line_that_does_nothing_to_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = key(dir.path(), &["ed25519"]);
    let subject = "\u{1b}[2J\" by Somebody Else <x@y>\u{202e}".to_owned() + &"z".repeat(500);
    let commit = String::from_utf8(COMMIT.to_vec()).unwrap().replace("subject", &subject);
    let (_, judge) = ask(Ok(text), vec![Answer::Allowed], &request(b"git", commit.as_bytes()));
    let shown = judge.asked.lock().unwrap()[0].parts[0].shown.clone();
    assert!(
        shown.contains(", sign a commit \"\\u{1b}[2J\\\" by Somebody Else <x@y>\\u{202e}zz"),
        "{shown}"
    );
    assert!(shown.len() < 500 && !shown.contains(char::is_control), "{shown}");
}
