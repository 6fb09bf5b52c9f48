//! What a push may claim of its history, and what it may cost to look at.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tests: what is not as it should be ends them"
)]

mod forge;
mod stage;

use std::time::Duration;

use forge::{Town, all, but, gits, is_so};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A host that takes shallow roots cuts its own history where a push says so: what the
/// commit names as its parent is gone there.
#[tokio::test]
async fn a_push_that_cuts_history_off_is_forced() {
    for git in gits() {
        let town = Town::new(git, but(|part| is_so(part, "force"))).await;
        let bare = town.forge.root.join("o/r.git");
        let on = ["-C", bare.to_str().unwrap(), "config", "receive.shallowUpdate", "true"];
        town.good(&on, ".").await;
        town.cloned().await;
        let before = town.forge.tip("o/r", "refs/heads/main");
        let cut = town.commit("work", "two", "a\n").await;
        std::fs::write(town.path("work/.git/shallow"), format!("{cut}\n")).unwrap();
        let outcome = town.run(&["push", "-f", "origin", "HEAD:main"], "work").await;
        let count = ["-C", bare.to_str().unwrap(), "rev-list", "--count", "main"];
        let count = town.good(&count, ".").await;
        assert_eq!(outcome.code, 1, "{count} of 2 commits are left: {outcome:?}");
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), before);
        // A clone that is shallow pushes on.
        let clone = ["clone", "-q", "--depth=1", "https://github.com/o/r.git", "flat"];
        town.good(&clone, ".").await;
        town.commit("flat", "two", "b\n").await;
        town.good(&["push", "-q", "origin", "HEAD:main"], "flat").await;
    }
}

/// An answer is for the commit: two whose names begin alike are made in a second, so a
/// few digits would be any commit's.
#[tokio::test]
async fn a_push_is_shown_with_the_whole_names_of_its_commits() {
    let town = Town::new(gits()[0], all()).await;
    town.cloned().await;
    let old = town.forge.tip("o/r", "refs/heads/main");
    let new = town.commit("work", "two", "a\n").await;
    town.good(&["push", "-q", "origin", "HEAD:main", "HEAD:other"], "work").await;
    town.good(&["push", "-q", "origin", "--delete", "other"], "work").await;
    let shown = town.pushed();
    assert_eq!(shown[0], format!("move refs/heads/main on from {old} to {new} in github.com/o/r"));
    assert_eq!(shown[1], format!("make refs/heads/other at {new} in github.com/o/r"));
    assert_eq!(shown[2], format!("delete refs/heads/other (was {new}) in github.com/o/r"));
}

/// Another port is another server: what was allowed at the one is asked at the other.
#[tokio::test]
async fn what_was_allowed_at_one_port_is_not_at_another() {
    let town = Town::with(gits()[0], false, all(), |gate| gate.ports = vec![8443]).await;
    for authority in ["github.com", "github.com", "github.com:8443"] {
        let line =
            format!("GET http://{authority}/o/r.git/info/refs?service=git-upload-pack HTTP/1.1");
        let host = format!("Host: {authority}");
        let answer = town.stage.raw(&town.stage.head(&[&line, &host])).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(town.stage.asked().len(), 2);
}

/// The head of a push that moves main, with its commands and the beginning of a pack.
fn push(town: &Town, pack: &[u8]) -> Vec<u8> {
    let line = format!("{} {} refs/heads/main\0report-status", "1".repeat(40), "2".repeat(40));
    let body = [format!("{:04x}{line}0000", line.len() + 4).as_bytes(), pack].concat();
    let mut bytes = town.stage.head(&[
        "POST http://github.com/o/r.git/git-receive-pack HTTP/1.1",
        "Host: github.com",
        "Content-Type: application/x-git-receive-pack-request",
        "Transfer-Encoding: chunked",
    ]);
    bytes.extend(format!("{:x}\r\n", body.len()).into_bytes());
    bytes.extend(body);
    bytes.extend(b"\r\n");
    bytes
}

/// A pack of one large commit that cannot be made smaller.
fn large() -> Vec<u8> {
    use std::io::Write as _;
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let content: Vec<u8> = (0..300_000).map(|_| next()).collect();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&content).unwrap();
    let mut size = content.len() >> 4;
    let mut object = vec![0x90 | (content.len() & 15) as u8];
    while size > 0 {
        object.push((size & 0x7f) as u8 | if size > 0x7f { 0x80 } else { 0 });
        size >>= 7;
    }
    [b"PACK\0\0\0\x02\0\0\0\x01".to_vec(), object, encoder.finish().unwrap()].concat()
}

/// Who sends a pack byte by byte makes nobody unpack it for each byte.
#[tokio::test]
async fn a_pack_in_small_pieces_is_not_unpacked_for_each() {
    let town = Town::new(gits()[0], all()).await;
    let pack = large();
    let mut stream = TcpStream::connect(town.stage.address).await.unwrap();
    let (first, rest) = pack.split_at(12);
    stream.write_all(&push(&town, first)).await.unwrap();
    let mut pieces = Vec::new();
    for piece in rest.chunks(100) {
        pieces.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        pieces.extend(piece);
        pieces.extend(b"\r\n");
    }
    pieces.extend(b"0\r\n\r\n");
    let begun = worked();
    stream.write_all(&pieces).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    // Unpacked for each it would be hundreds of megabytes.
    let took = worked() - begun;
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// How long this thread has had a processor, whatever else this machine does: the gate of a
/// test runs on the test's own.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Pushes of a call that are looked at at once are few: each has commits in memory.
#[tokio::test]
async fn few_pushes_of_a_call_are_looked_at_at_once() {
    let town = Town::new(gits()[0], all()).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(town.stage.address).await.unwrap();
        stream.write_all(&push(&town, b"PACK\0\0\0\x02\0\0\0\x01")).await.unwrap();
        open.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut third = TcpStream::connect(town.stage.address).await.unwrap();
    let whole = [push(&town, b"PACK\0\0\0\x02\0\0\0\0"), b"0\r\n\r\n".to_vec()].concat();
    third.write_all(&whole).await.unwrap();
    let mut answer = [0; 12];
    let early = tokio::time::timeout(Duration::from_secs(1), third.read_exact(&mut answer)).await;
    assert!(early.is_err(), "it waits for one of the others");
    open.clear();
    let read = tokio::time::timeout(Duration::from_secs(60), third.read_exact(&mut answer));
    read.await.expect("it has its turn").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
