//! A second hello, where the host asks for one.
//!
//! In TLS 1.3 a host may answer the first message with HelloRetryRequest; the client
//! then says its hello again, and hosts differ in which of the two names they go by.
//! Owns: seeing that, and looking at the second as at the first. Must not: look at
//! anything behind it; that is encrypted.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::connect::{Broken, checked};
use super::hello::{self, Hello};

/// The random of a ServerHello that asks for another hello: RFC 8446, 4.1.3.
const RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The second message has to come within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// So much of the tool's is held until the host has answered.
const HELD: usize = 64 * 1024;
/// A record's head; a handshake message's head, version and random.
const HEAD: usize = 5;
const HELLO: usize = 4 + 2 + 32;
/// So much of the host's is looked at.
const LOOKED_AT: usize = 4096;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// What a host's first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    More,
    Retry,
    Other,
}

fn answer(mut bytes: &[u8]) -> Answer {
    loop {
        let Some((head, body)) = bytes.split_first_chunk::<HEAD>() else { return Answer::More };
        let [kind, _, _, high, low] = *head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        match (kind, body.get(..length)) {
            // A warning, before TLS 1.3.
            (ALERT, Some(_)) => bytes = body.get(length..).unwrap_or_default(),
            (ALERT, None) => return Answer::More,
            (HANDSHAKE, _) if length >= HELLO && body.len() < HELLO => return Answer::More,
            (HANDSHAKE, _) if length >= HELLO => {
                let is = body.first() == Some(&2) && body.get(HELLO - 32..HELLO) == Some(&RANDOM);
                return if is { Answer::Retry } else { Answer::Other };
            }
            _ => return Answer::Other,
        }
    }
}

/// Passes what comes until nothing is left to be looked at. `held` is what the tool sent
/// behind its first hello, which the host has.
pub(super) async fn pass<N, F>(
    near: &mut N,
    far: &mut F,
    host: &str,
    mut held: Vec<u8>,
) -> Result<(), Broken>
where
    N: AsyncRead + AsyncWrite + Unpin,
    F: AsyncRead + AsyncWrite + Unpin,
{
    let (mut ours, mut theirs) = ([0; 4096], [0; 4096]);
    let (mut seen, mut ended) = (Vec::new(), false);
    loop {
        tokio::select! {
            read = far.read(&mut theirs) => {
                let piece = theirs.get(..read?).unwrap_or_default();
                near.write_all(piece).await?;
                seen.extend_from_slice(piece);
                match answer(&seen) {
                    Answer::More if !piece.is_empty() && seen.len() < LOOKED_AT => {}
                    Answer::Retry => break,
                    Answer::More | Answer::Other => {
                        return Ok(far.write_all(&held).await?);
                    }
                }
            }
            read = near.read(&mut ours), if !ended && held.len() < HELD => {
                let piece = ours.get(..read?).unwrap_or_default();
                held.extend_from_slice(piece);
                ended = piece.is_empty();
                if ended && held.is_empty() {
                    // Nothing can come any more.
                    return Ok(far.shutdown().await?);
                }
            }
        }
    }
    match timeout(PATIENCE, second(near, far, host, held)).await {
        Ok(passed) => passed,
        Err(_elapsed) => Err(Broken::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// The next hello, and what may stand before it: a change of ciphers that means nothing,
/// and data that was sent too early, which the host throws away.
async fn second<N, F>(
    near: &mut N,
    far: &mut F,
    host: &str,
    mut held: Vec<u8>,
) -> Result<(), Broken>
where
    N: AsyncRead + Unpin,
    F: AsyncWrite + Unpin,
{
    let mut piece = [0; 4096];
    loop {
        while let Some(end) = before(&held) {
            far.write_all(held.get(..end).unwrap_or_default()).await?;
            held.drain(..end);
        }
        if held.first().is_none_or(|kind| *kind == HANDSHAKE) {
            match hello::read(&held) {
                Hello::More if held.len() > hello::LOOKED_AT => {
                    return Err(Broken::Refused("a message of TLS is too long".to_owned()));
                }
                Hello::More => {}
                Hello::Bad(why) => return Err(Broken::Refused(why.to_owned())),
                Hello::Whole { name, .. } => {
                    checked(name.as_deref(), host)?;
                    return Ok(far.write_all(&held).await?);
                }
            }
        }
        match near.read(&mut piece).await? {
            0 => return Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())),
            count => held.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
}

/// Where a record ends that is whole and no handshake message.
fn before(held: &[u8]) -> Option<usize> {
    let [kind, _, _, high, low] = *held.first_chunk::<HEAD>()?;
    let end = HEAD + usize::from(u16::from_be_bytes([high, low]));
    (matches!(kind, 20 | ALERT | 23) && held.len() >= end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_asks_for_another_hello_is_known_by_its_random() {
        let hello = |random: [u8; 32], rest: usize| {
            let body = [&[2, 0, 0, 80, 3, 3][..], &random, &vec![0; rest]].concat();
            let length = u8::try_from(body.len()).unwrap();
            [&[22, 3, 3, 0, length][..], &body].concat()
        };
        let (retry, plain) = (hello(RANDOM, 46), hello([7; 32], 46));
        let warning = [21, 3, 3, 0, 2, 1, 112];
        for (bytes, wanted) in [(&retry, Answer::Retry), (&plain, Answer::Other)] {
            for first in [&b""[..], &warning, &[warning, warning].concat()] {
                let all = [first, bytes.as_slice()].concat();
                assert_eq!(answer(&all), wanted);
                for end in 0..first.len() + HEAD + HELLO {
                    assert_eq!(answer(&all[..end]), Answer::More, "{end}");
                }
            }
        }
        for other in [&b"HTTP/1.1 400 Bad\r\n"[..], &[23, 3, 3, 0, 1, 0], &[22, 3, 3, 0, 4, 2]] {
            assert_eq!(answer(other), Answer::Other);
        }
    }
}
