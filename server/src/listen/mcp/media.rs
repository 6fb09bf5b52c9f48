//! Pictures and sounds among the results: what a program wrote, or a file held.
//!
//! Owns: which are shown as such: those that models take, told by their first bytes alone;
//! and what is said beside them. Clients show models what is structured, so the bytes are
//! not there a second time. Must not: read more than the output has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ContentBlock;
use serde_json::Value;

/// As the library calls them, and as MCP does.
const KNOWN: [(&str, &str); 8] = [
    ("image/png", "image/png"),
    ("image/jpeg", "image/jpeg"),
    ("image/gif", "image/gif"),
    ("image/webp", "image/webp"),
    ("audio/x-wav", "audio/wav"),
    ("audio/mpeg", "audio/mpeg"),
    ("audio/ogg", "audio/ogg"),
    ("audio/x-flac", "audio/flac"),
];
/// Of base64: more than any of them is known by.
const HEAD: usize = 1024;

/// One of them.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    /// The member that has it.
    member: &'static str,
    media: &'static str,
    data: &'a str,
}

/// What an output is, where it is all of a picture or a sound.
pub(super) fn of(output: &Value) -> Option<Shown<'_>> {
    let whole = |member: &str, size: &str| {
        let data = output.get(member)?.as_str()?;
        // A part of it shows nothing.
        (bytes(data)? == output.get(size)?.as_u64()?).then_some(data)
    };
    let is_base64 = |name: &str| output.get(name).and_then(Value::as_str) == Some("base64");
    let (member, data) = if is_base64("encoding") {
        ("content", whole("content", "size")?)
    } else if is_base64("stdout_encoding") {
        ("stdout", whole("stdout", "stdout_bytes")?)
    } else {
        return None;
    };
    let head = STANDARD.decode(data.get(..HEAD.min(data.len()))?).ok()?;
    let kind = infer::get(&head)?.mime_type();
    let (_, media) = KNOWN.iter().find(|(known, _)| *known == kind)?;
    Some(Shown { member, media, data })
}

/// How many base64 stands for.
fn bytes(data: &str) -> Option<u64> {
    let filled = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    u64::try_from((data.len() / 4 * 3).checked_sub(filled)?).ok()
}

impl Shown<'_> {
    /// For the client.
    pub(super) fn block(&self) -> ContentBlock {
        if self.media.starts_with("image/") {
            ContentBlock::image(self.data, self.media)
        } else {
            ContentBlock::audio(self.data, self.media)
        }
    }

    /// What there is to say beside it, in the form of the output.
    pub(super) fn rest(&self, output: &Value) -> Value {
        let mut rest = output.clone();
        let Some(object) = rest.as_object_mut() else { return rest };
        if self.member == "content" {
            object.remove("content");
            object.insert("encoding".to_owned(), "binary".into());
            object.insert("media_type".to_owned(), self.media.into());
        } else {
            object.insert("stdout".to_owned(), format!("[{}]\n", self.media).into());
            object.insert("stdout_encoding".to_owned(), "utf-8".into());
            object.insert("truncated".to_owned(), true.into());
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0";

    fn file(bytes: &[u8], size: usize) -> Value {
        json!({"content": STANDARD.encode(bytes), "encoding": "base64", "size": size, "path": "a"})
    }

    fn media_of(output: &Value) -> Option<&'static str> {
        of(output).map(|shown| shown.media)
    }

    #[test]
    fn pictures_and_sounds_are_known_by_their_bytes_and_only_where_they_are_whole() {
        assert_eq!(media_of(&file(PNG, PNG.len())), Some("image/png"));
        assert_eq!(media_of(&file(WAV, WAV.len())), Some("audio/wav"));
        for none in [
            file(PNG, PNG.len() + 1),
            file(b"%PDF-1.7\n", 9),
            file(b"<svg xmlns='http://www.w3.org/2000/svg'/>", 41),
            file(b"", 0),
            json!({"content": "iVBORw0KGgo=", "encoding": "utf-8", "size": 12}),
            json!({"content": "*", "encoding": "base64", "size": 0}),
            json!({"encoding": "binary", "size": 8}),
            json!(7),
        ] {
            assert_eq!(media_of(&none), None, "{none}");
        }
        let ran = json!({
            "stdout": STANDARD.encode(PNG), "stdout_encoding": "base64",
            "stdout_bytes": PNG.len(), "stderr": "", "exit_code": 0,
        });
        let shown = of(&ran).unwrap();
        assert_eq!(shown.rest(&ran)["stdout"], "[image/png]\n");
        let read = file(PNG, PNG.len());
        let rest = of(&read).unwrap().rest(&read);
        assert_eq!(rest["encoding"], "binary");
        assert!(rest.get("content").is_none());
    }
}
