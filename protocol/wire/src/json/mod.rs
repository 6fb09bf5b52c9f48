//! The little JSON that a program without an allocator needs.
//!
//! Owns: a writer into a caller's buffer, a bounded pull reader over borrowed
//! bytes, and one linear pass that measures nesting.
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
    let mut in_string = false;
    let mut escaped = false;
    for byte in text {
        if in_string {
            if escaped {
                escaped = false;
            } else if *byte == b'\\' {
                escaped = true;
            } else if *byte == b'"' {
                in_string = false;
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
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

#[cfg(test)]
mod tests {
    use super::depth_within;

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
    fn brackets_in_strings_do_not_count() {
        assert!(depth_within(br#"["[[[[{{{{"]"#, 1));
        assert!(depth_within(br#"["\"[[", "\\", "[["]"#, 1));
        assert!(!depth_within(br#"["\\", [ "\"" ], "\\\\",[[]]]"#, 2));
        // A closing bracket too many makes no room for deeper nesting later.
        assert!(!depth_within(b"]]]][[", 1));
    }
}
