//! Patterns for bytes.
//!
//! `*` is any bytes, `/` among them; `?` is one byte; `\` quotes what follows.
//! Nothing else has a meaning. Must not: take longer than text times pattern,
//! whatever either holds.

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Byte(u8),
}

impl Pattern {
    /// Reads a pattern; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Pattern, &'static str> {
        let mut parts = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                // Two in a row say no more than one.
                b'*' if parts.last() == Some(&Part::Any) => continue,
                b'*' => Part::Any,
                b'?' => Part::One,
                b'\\' => Part::Byte(bytes.next().ok_or("a pattern cannot end in \\")?),
                byte => Part::Byte(byte),
            });
        }
        match parts.is_empty() {
            true => Err("an empty pattern matches nothing: leave it out"),
            false => Ok(Pattern { text: text.to_owned(), parts }),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `text` is meant.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.run(text, |left, right| left == right)
    }

    /// The same, with small and capital letters alike.
    pub fn matches_folded(&self, text: &[u8]) -> bool {
        self.run(text, |left, right| left.eq_ignore_ascii_case(&right))
    }

    /// The bytes that everything meant begins with.
    pub fn beginning(&self) -> Vec<u8> {
        let byte = |part: &Part| match part {
            Part::Byte(byte) => Some(*byte),
            Part::Any | Part::One => None,
        };
        self.parts.iter().map_while(byte).collect()
    }

    /// Whether a `*` in a text can only be taken by one of its own.
    pub(crate) fn takes_stars(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::One | Part::Byte(b'*')))
    }

    // After a mismatch only the last `*` can take one byte more: the earlier
    // ones have found their shortest text already.
    fn run(&self, text: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
        let (mut at, mut part) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let fits = match (self.parts.get(part), text.get(at)) {
                (None, None) => return true,
                (Some(Part::Any), _) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                (Some(Part::One), Some(_)) => true,
                (Some(Part::Byte(wanted)), Some(byte)) => same(*wanted, *byte),
                _ => false,
            };
            if fits {
                at += 1;
                part += 1;
                continue;
            }
            match &mut star {
                Some((any, from)) if *from < text.len() => {
                    *from += 1;
                    (part, at) = (*any + 1, *from);
                }
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn matches(pattern: &str, text: &[u8]) -> bool {
        Pattern::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn patterns_mean_the_whole_text() {
        for (pattern, yes, no) in [
            ("main", &["main"][..], &["", "mai", "main2", "xmain", "Main"][..]),
            ("release/*", &["release/", "release/1", "release/a/b"], &["release", "xrelease/1"]),
            ("*", &["", "a", "a/b\n"], &[]),
            ("**", &["", "ab"], &[]),
            ("a*b*c", &["abc", "a-b-c", "abbcc", "abcbc"], &["ab", "acb", "abcd"]),
            ("?", &["a", "/", "*"], &["", "ab"]),
            ("*.git", &[".git", "x.git", "x.git.git"], &["x.gi", "git", "x.git/"]),
            (r"\*", &["*"], &["a", "", r"\*"]),
            (r"a\\b", &[r"a\b"], &["ab"]),
            ("[a]{b}", &["[a]{b}"], &["a", "ab"]),
        ] {
            for text in yes {
                assert!(matches(pattern, text.as_bytes()), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern, text.as_bytes()), "{pattern} {text}");
            }
        }
        assert!(matches("?", b"\xff") && !matches("?", "é".as_bytes()), "bytes, not characters");
        assert!(Pattern::parse("MAIN").unwrap().matches_folded(b"main"));
        assert_eq!(Pattern::parse("refs/*").unwrap().beginning(), b"refs/");
        assert!(Pattern::parse("").is_err() && Pattern::parse("a\\").is_err());
    }

    #[test]
    fn many_stars_do_not_take_long() {
        let text = vec![b'a'; 100_000];
        assert!(!matches(&format!("{}b", "a*".repeat(20)), &text));
    }
}
