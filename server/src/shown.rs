//! A text of somebody else's, for a person's terminal.
//!
//! Owns: that nothing of it does more than appear, and that no part of it can look like
//! a line that it does not stand in. Must not: know whose text it is.

/// The most columns of a piece: with what stands before it, it fits where 80 are.
const COLUMNS: usize = 66;

/// What has no look of its own is written out: control characters, marks of direction,
/// what stands above another letter, blanks that are no space.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' | '\'' | '"' | '\\' => shown.push(letter),
            // As Rust judges it; and those that have a look by Unicode's tables alone.
            letter if letter.escape_debug().len() > 1 || is_blank(letter) => {
                shown.extend(letter.escape_unicode());
            }
            letter => shown.push(letter),
        }
    }
    shown
}

/// Letters and a sign that are shown as nothing.
fn is_blank(letter: char) -> bool {
    matches!(letter, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
}

/// A line in pieces that a terminal does not break: what it breaks goes on at the
/// beginning of a row, without a mark before it.
pub(crate) fn pieces(line: &str) -> Vec<&str> {
    let (mut pieces, mut begin, mut columns) = (Vec::new(), 0, 0);
    for (at, letter) in line.char_indices() {
        let wide = match letter {
            '\t' => 8,
            letter if letter.is_ascii() => 1,
            _ => 2,
        };
        if columns + wide > COLUMNS {
            pieces.push(line.get(begin..at).unwrap_or_default());
            (begin, columns) = (at, 0);
        }
        columns += wide;
    }
    pieces.push(line.get(begin..).unwrap_or_default());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_does_nothing_to_a_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\u{202e}\tä\n"), "a\\u{1b}[2Jb\\u{d}\\u{202e}\tä\n");
        assert_eq!(harmless(r#"'ä' "漢" \n Ж"#), r#"'ä' "漢" \n Ж"#);
        let unseen = "\u{ad}\u{a0}\u{301}\u{34f}\u{115f}\u{200b}\u{2066}\u{2800}\u{3164}\u{fe0f}\u{feff}\u{e000}\u{e0041}\u{e0100}";
        let shown = harmless(unseen);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(shown.matches("\\u{").count(), unseen.chars().count(), "{shown}");
    }

    #[test]
    fn a_long_line_is_shown_in_pieces_that_fit() {
        assert_eq!(pieces(""), [""]);
        assert_eq!(pieces("a\tb"), ["a\tb"]);
        let line = "x".repeat(COLUMNS);
        assert_eq!(pieces(&line), [&*line]);
        assert_eq!(pieces(&format!("{line}yz")), [&*line, "yz"]);
        let wide = "漢".repeat(40);
        assert_eq!(
            pieces(&wide).iter().map(|piece| piece.chars().count()).collect::<Vec<_>>(),
            [33, 7]
        );
        assert_eq!(pieces(&"\t".repeat(9)).len(), 2);
        assert_eq!(pieces(&wide).concat(), wide);
    }
}
