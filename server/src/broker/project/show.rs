//! A script for an operator's terminal, so that what is read is what is run.
//!
//! Owns: the form. A line of printable ASCII and tabs stands as it is behind `|`; any
//! other stands escaped as a whole behind `!`, so that nothing moves the cursor, turns
//! the reading direction or looks like another letter. A long one goes on behind `>`,
//! so that no part of it looks like another line.

use super::Script;
use crate::shown::pieces;

/// The script, line by line.
pub(crate) fn render(script: &Script) -> String {
    let mut text = String::new();
    let all = script.bytes.strip_suffix(b"\n").unwrap_or(&script.bytes);
    for (index, line) in all.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let (mark, line) = match std::str::from_utf8(line) {
            Ok(line) if line.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) => {
                ('|', line.to_owned())
            }
            _ => ('!', line.escape_ascii().to_string()),
        };
        for (index, piece) in pieces(&line).into_iter().enumerate() {
            text.push_str(&match index {
                0 => format!("{number:>6} {mark} {piece}\n"),
                _ => format!("{:>6} > {piece}\n", ""),
            });
        }
    }
    if !script.bytes.ends_with(b"\n") && !script.bytes.is_empty() {
        text.push_str("       (no newline at its end)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_and_told_from_what_looks_so() {
        let shown = |bytes: &[u8]| {
            let (path, hash, interpreter) = ("s".to_owned(), String::new(), Vec::new());
            render(&Script { path, interpreter, bytes: bytes.to_vec(), hash })
        };
        assert_eq!(shown(b"a \\x1b\n\tb\n"), "     1 | a \\x1b\n     2 | \tb\n");
        assert_eq!(shown(b"\x1b[2J \\\n"), "     1 ! \\x1b[2J \\\\\n");
        assert_eq!(shown("rm \u{202e}x\r\n".as_bytes()), "     1 ! rm \\xe2\\x80\\xaex\\r\n");
        assert_eq!(shown(b"x"), "     1 | x\n       (no newline at its end)\n");
        assert_eq!(shown(b""), "     1 | \n");
        let long = format!("#{}     3 | exit 0\n", " ".repeat(66));
        let first = format!("     1 | #{}\n", " ".repeat(65));
        assert_eq!(shown(long.as_bytes()), format!("{first}       >       3 | exit 0\n"));
        let all: Vec<u8> = (0..=255).collect();
        let shown = shown(&all);
        assert!(shown.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{shown}");
    }
}
