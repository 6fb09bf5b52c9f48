//! Names of refs, and the ids of objects.

/// What an object is called: SHA-1 or SHA-256, in small hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Vec<u8>);

/// How objects are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl Format {
    /// How many bytes an id has.
    pub fn length(self) -> usize {
        match self {
            Format::Sha1 => 20,
            Format::Sha256 => 32,
        }
    }

    /// As it is called on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Sha1 => "sha1",
            Format::Sha256 => "sha256",
        }
    }

    /// The only way from text.
    pub fn parse(text: &[u8]) -> Option<Format> {
        [Format::Sha1, Format::Sha256].into_iter().find(|one| one.as_str().as_bytes() == text)
    }
}

impl Id {
    /// Reads the digits of one of this format: no more, no fewer, no capitals.
    pub fn parse(digits: &[u8], format: Format) -> Option<Id> {
        let fits = digits.len() == format.length() * 2
            && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| Id(digits.to_vec()))
    }

    /// From its bytes.
    pub fn of(bytes: &[u8]) -> Id {
        Id(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
    }

    /// The one that stands for nothing.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|digit| *digit == b'0')
    }

    /// Its digits.
    pub fn digits(&self) -> &[u8] {
        &self.0
    }

    /// Its digits as text, all of them: another one that begins alike is made in a second.
    pub fn text(&self) -> String {
        self.0.iter().copied().map(char::from).collect()
    }
}

/// No name is longer: no file of that name could be.
const LONGEST: usize = 1024;

/// Whether git takes it for a ref that may be pushed to: what `git check-ref-format`
/// says, beneath `refs/`, with two further parts or more.
pub fn is_ref(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"refs/") else { return false };
    let wrong = |byte: &u8| {
        *byte < 0x20
            || matches!(byte, 0x7f | b' ' | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
    };
    let good =
        |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock");
    let has = |two: &[u8]| name.windows(2).any(|window| window == two);
    name.len() <= LONGEST
        && rest.contains(&b'/')
        && !name.iter().any(wrong)
        && !name.ends_with(b".")
        && !has(b"..")
        && !has(b"@{")
        && rest.split(|byte| *byte == b'/').all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_git_takes_for_one() {
        for name in [
            "refs/heads/main",
            "refs/heads/a/b.c",
            "refs/tags/v1",
            "refs/heads/@",
            "refs/heads/a@b",
            "refs/heads/-x",
            "refs/for/main",
            "refs/heads/ä",
            "refs/heads/a{b",
        ] {
            assert!(is_ref(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "HEAD",
            "main",
            "refs",
            "refs/",
            "refs/x",
            "refs/heads/",
            "refs//heads/x",
            "refs/heads//x",
            "refs/heads/x/",
            "refs/heads/.x",
            "refs/heads/x.",
            "refs/heads/a..b",
            "refs/heads/../x",
            "refs/heads/x.lock",
            "refs/heads/x.lock/y",
            "refs/heads/a@{1}",
            "refs/heads/a b",
            "refs/heads/a\tb",
            "refs/heads/a\nb",
            "refs/heads/a\x7fb",
            "refs/heads/a~",
            "refs/heads/a^",
            "refs/heads/a:b",
            "refs/heads/a?",
            "refs/heads/a*",
            "refs/heads/a[",
            "refs/heads/a\\b",
            "refs/heads/a\0b",
            "/refs/heads/x",
            "Refs/heads/x",
            "refs/./x",
            " refs/heads/x",
        ] {
            assert!(!is_ref(name.as_bytes()), "{name:?}");
        }
        assert!(!is_ref(format!("refs/heads/{}", "x".repeat(2000)).as_bytes()));
    }

    #[test]
    fn ids_are_digits_of_the_right_number() {
        let sha1 = "0123456789abcdef0123456789abcdef01234567";
        assert!(Id::parse(sha1.as_bytes(), Format::Sha1).is_some());
        assert!(Id::parse(sha1.as_bytes(), Format::Sha256).is_none());
        assert!(Id::parse(sha1.to_uppercase().as_bytes(), Format::Sha1).is_none());
        assert!(Id::parse(&sha1.as_bytes()[1..], Format::Sha1).is_none());
        let id = Id::of(&[0, 0xff, 0x1a]);
        assert_eq!(id.digits(), b"00ff1a");
        assert!(!id.is_zero() && Id::of(&[0; 20]).is_zero());
    }
}
