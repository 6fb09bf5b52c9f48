//! What a call tells while it is under way, as messages.

use serde::Serialize;
use tool_protocol::control::signal_name;
use tool_protocol::frame::Kind;
use tool_protocol::text::serialize_bytes;

use super::connection::Writer;
use crate::exec::{Chunk, Event, Source};

/// Every message that may come before the last one; each has one member.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Message<'a> {
    Pty(bool),
    Started(bool),
    Stopped(&'a str),
    Notice(&'a str),
    Window(usize),
    Terminal(#[serde(serialize_with = "bytes")] &'a [u8]),
}

/// What fits a frame whatever it holds: one byte may be six characters.
const PIECE: usize = 8 * 1024;

fn bytes<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serialize_bytes(bytes, serializer)
}

fn json(message: &Message<'_>) -> std::io::Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(std::io::Error::other)
}

/// Adds what a call tells to what is to be written.
pub(super) fn queue(writer: &mut Writer, event: Event) -> std::io::Result<()> {
    match event {
        Event::Started => writer.queue(json(&Message::Started(true))?),
        Event::Stopped(number) => {
            let name = signal_name(number).unwrap_or("STOP");
            writer.queue(json(&Message::Stopped(name))?)
        }
        Event::Notice(line) => writer.queue(json(&Message::Notice(&line))?),
        Event::Credit(bytes) => writer.queue(json(&Message::Window(bytes))?),
        Event::Pty(masters) => writer.queue_with(json(&Message::Pty(true))?, masters),
    }
}

/// Adds a piece of output.
pub(super) fn queue_chunk(writer: &mut Writer, chunk: &Chunk) -> std::io::Result<()> {
    match chunk.source {
        Source::Stdout => writer.queue_chunk(Kind::Stdout, &chunk.bytes),
        Source::Stderr => writer.queue_chunk(Kind::Stderr, &chunk.bytes),
        Source::Stopped(signal) => return queue(writer, Event::Stopped(signal)),
        Source::Terminal => {
            for piece in chunk.bytes.chunks(PIECE) {
                writer.queue(json(&Message::Terminal(piece))?)?;
            }
        }
    }
    Ok(())
}
