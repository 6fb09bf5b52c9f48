//! The little JSON that a program without an allocator needs.
//!
//! Owns: a writer into a caller's buffer, a bounded pull reader over borrowed
//! bytes, and linear passes that measure nesting and count values.
//! Must not: allocate, recurse, or know any message.

mod read;
mod write;

pub use read::{Malformed, Object, Piece, Pieces, Text, Value};
pub use write::{Form, Writer};

/// Whether `text` nests objects and arrays at most `max` deep; `{}` is one
/// deep. One pass, no stack: it goes before a parser that recurses. It says
/// nothing about the rest of the grammar, but up to the first error that a
/// parser would stop at, it counts what the parser would count.
pub fn depth_within(text: &[u8], max: usize) -> bool {
    let mut depth = 0_usize;
    for byte in structure(text) {
        match byte {
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                if depth > max {
                    return false;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// Whether `text` has at most `max` values, by a pass as for its depth: `0,` takes two
/// bytes, and in a parser's memory many times that. An empty object or array counts
/// twice.
pub fn values_within(text: &[u8], max: usize) -> bool {
    let begins = |byte: &u8| matches!(byte, b'{' | b'[' | b',');
    // The outermost has nothing before it.
    structure(text).filter(begins).take(max).count() < max
}

/// What is outside of strings.
fn structure(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut in_string = false;
    let mut escaped = false;
    text.iter().copied().filter(move |byte| {
        if !in_string {
            in_string = *byte == b'"';
            return !in_string;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = false,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::{depth_within, values_within};

    fn nested(depth: usize) -> Vec<u8> {
        let mut text = b"[".repeat(depth);
        text.extend(b"]".repeat(depth));
        text
    }

    #[test]
    fn depth_at_its_edges() {
        for depth in [0, 1, 63, 64, 65, 100_000] {
            assert_eq!(depth_within(&nested(depth), 64), depth <= 64, "{depth}");
            let open = b"{\"a\":".repeat(depth);
            assert_eq!(depth_within(&open, 64), depth <= 64, "{depth}");
        }
        assert!(depth_within(b"7", 0));
        assert!(!depth_within(b"{}", 0));
        assert!(depth_within(b"[[],[],[[]]]", 3));
        assert!(!depth_within(b"[[],[],[[]]]", 2));
    }

    #[test]
    fn values_at_their_edges() {
        for (text, values) in [
            ("7", 1),
            ("[]", 2),
            ("[1,2]", 3),
            (r#"{"a":[1,{"b":2}],"c":"},[\\\","}"#, 6),
            (r#"["\\",1]"#, 3),
        ] {
            assert!(values_within(text.as_bytes(), values), "{text}");
            assert!(!values_within(text.as_bytes(), values - 1), "{text}");
        }
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(depth_within(br#"["[[[[{{{{"]"#, 1));
        assert!(depth_within(br#"["\"[[", "\\", "[["]"#, 1));
        assert!(!depth_within(br#"["\\", [ "\"" ], "\\\\",[[]]]"#, 2));
        // A closing bracket too many makes no room for deeper nesting later.
        assert!(!depth_within(b"]]]][[", 1));
    }
}
