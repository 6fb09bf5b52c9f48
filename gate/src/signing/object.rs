//! A commit or a tag, as git writes it before it is signed.
//!
//! Strict on purpose: what is signed is what was understood, byte for byte. What git
//! itself would not write is no commit and no tag.

/// The longest line of a header, a name or an address in it.
const LONGEST_LINE: usize = 4096;

/// What is to be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<'a> {
    /// A commit.
    Commit {
        /// How many it follows.
        parents: usize,
        /// The lines that name its tree and those.
        roots: &'a [u8],
        /// Who wrote it.
        author: Person<'a>,
        /// Who put it in place.
        committer: Person<'a>,
        /// The first line of its message.
        subject: &'a [u8],
    },
    /// A tag.
    Tag {
        /// Its name.
        name: &'a [u8],
        /// The name of what it is of.
        id: &'a [u8],
        /// What it is of: `commit`, `tree`, `blob` or `tag`.
        of: &'a [u8],
        /// Whose.
        tagger: Person<'a>,
        /// The first line of its message.
        subject: &'a [u8],
    },
}

/// Whose name stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The address between the angle brackets.
    pub email: &'a [u8],
}

/// Why something is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It begins as neither does.
    #[error("what is to be signed is neither a commit nor a tag")]
    Neither,
    /// A line that belongs there is missing, or says something else.
    #[error("what is to be signed is not a well-formed {0}: its line `{1}` is missing or wrong")]
    Line(&'static str, &'static str),
    /// git takes no such byte either.
    #[error("what is to be signed contains a NUL byte")]
    Nul,
    /// A signature in what is to be signed: it would say what nobody has read.
    #[error("what is to be signed has a signature already")]
    Signed,
}

impl<'a> Object<'a> {
    /// Reads the whole of it.
    pub fn parse(bytes: &'a [u8]) -> Result<Object<'a>, ObjectError> {
        if bytes.contains(&0) {
            return Err(ObjectError::Nul);
        }
        if bytes.starts_with(b"tree ") {
            commit(Lines(bytes))
        } else if bytes.starts_with(b"object ") {
            tag(Lines(bytes))
        } else {
            Err(ObjectError::Neither)
        }
    }
}

fn commit(mut lines: Lines<'_>) -> Result<Object<'_>, ObjectError> {
    let wrong = |line| ObjectError::Line("commit", line);
    let whole = lines.0;
    let tree = lines.take(b"tree ").filter(|id| is_id(id)).ok_or(wrong("tree"))?;
    let mut parents = 0;
    while let Some(id) = lines.take(b"parent ") {
        if !is_id(id) || id.len() != tree.len() {
            return Err(wrong("parent"));
        }
        parents += 1;
    }
    let roots = whole.len().checked_sub(lines.0.len()).and_then(|end| whole.get(..end));
    let roots = roots.unwrap_or_default();
    let author = lines.take(b"author ").and_then(person).ok_or(wrong("author"))?;
    let committer = lines.take(b"committer ").and_then(person).ok_or(wrong("committer"))?;
    // Headers that git knows, or will: a name, a blank and a text, whose further lines
    // begin with a blank.
    let mut first = true;
    loop {
        let line = lines.line().ok_or(wrong("(empty)"))?;
        if line.is_empty() {
            break;
        }
        if line.starts_with(b"gpgsig") {
            return Err(ObjectError::Signed);
        }
        let blank = line.iter().position(|byte| *byte == b' ').ok_or(wrong("(header)"))?;
        let known = [&b"tree"[..], b"parent", b"author", b"committer"];
        let again = line.get(..blank).is_none_or(|name| known.contains(&name));
        if again || (blank == 0 && first) {
            return Err(wrong("(header)"));
        }
        first = false;
    }
    Ok(Object::Commit { parents, roots, author, committer, subject: lines.subject() })
}

fn tag(mut lines: Lines<'_>) -> Result<Object<'_>, ObjectError> {
    let wrong = |line| ObjectError::Line("tag", line);
    let id = lines.take(b"object ").filter(|id| is_id(id)).ok_or(wrong("object"))?;
    let kinds = [&b"commit"[..], b"tree", b"blob", b"tag"];
    let of = lines.take(b"type ").filter(|kind| kinds.contains(kind)).ok_or(wrong("type"))?;
    let name = lines.take(b"tag ").filter(|name| is_name(name)).ok_or(wrong("tag"))?;
    let tagger = lines.take(b"tagger ").and_then(person).ok_or(wrong("tagger"))?;
    if lines.line() != Some(b"") {
        return Err(wrong("(empty)"));
    }
    Ok(Object::Tag { name, id, of, tagger, subject: lines.subject() })
}

/// Lines of a header, each ended.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.get(1..)?;
        Some(line)
    }

    /// The rest of the next line, if it begins so.
    fn take(&mut self, beginning: &[u8]) -> Option<&'a [u8]> {
        let mut further = Lines(self.0);
        let line = further.line().filter(|line| line.len() <= LONGEST_LINE)?;
        let rest = line.strip_prefix(beginning)?;
        self.0 = further.0;
        Some(rest)
    }

    /// The first line of what is left.
    fn subject(&self) -> &'a [u8] {
        self.0.split(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap_or_default()
    }
}

/// SHA-1 or SHA-256, as git writes them.
fn is_id(id: &[u8]) -> bool {
    let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    matches!(id.len(), 40 | 64) && id.iter().all(digit)
}

/// `NAME <ADDRESS> SECONDS ZONE`, as git's own check has it.
fn person(line: &[u8]) -> Option<Person<'_>> {
    let odd = |byte: &u8| matches!(byte, b'<' | b'>') || byte.is_ascii_control();
    let open = line.iter().position(|byte| *byte == b'<')?;
    let (name, rest) = line.split_at_checked(open)?;
    let rest = rest.get(1..)?;
    let close = rest.iter().position(|byte| *byte == b'>')?;
    let (email, rest) = rest.split_at_checked(close)?;
    let when = rest.strip_prefix(b"> ")?;
    let mut words = when.split(|byte| *byte == b' ');
    let (seconds, zone) = (words.next()?, words.next()?);
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let (sign, hours) = zone.split_first()?;
    let good = words.next().is_none()
        && digits(seconds)
        && seconds.len() <= 18
        && matches!(sign, b'+' | b'-')
        && hours.len() == 4
        && digits(hours);
    let name = name.strip_suffix(b" ")?;
    let clean = !name.iter().any(odd) && !email.iter().any(odd);
    (good && clean).then_some(Person { name, email })
}

/// A name of a ref, by git's rules.
fn is_name(name: &[u8]) -> bool {
    let odd = |byte: &u8| {
        byte.is_ascii_control()
            || matches!(byte, b' ' | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
    };
    let part =
        |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock");
    !name.iter().any(odd)
        && !name.starts_with(b"-")
        && !name.ends_with(b".")
        && !name.windows(2).any(|pair| pair == b".." || pair == b"@{")
        && name.split(|byte| *byte == b'/').all(part)
}
