//! The commits at the beginning of a pack, and which of them leads to which.
//!
//! An object's name is the digest of what it holds: a commit that was read here is
//! proof of its parents, whoever sent it. git writes commits before everything else,
//! so the beginning of a pack is enough; reading ends at the first thing that is no
//! commit or tag.
//!
//! Must not: believe what a pack says beside that, or hold more than its bounds.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use flate2::{Decompress, FlushDecompress, Status};
use sha1::Digest as _;

use super::delta;
use super::name::{Format, Id};

/// So many bytes of a pack are looked at.
const MOST_BYTES: usize = 8 << 20;

/// So many bytes may all commits and tags be that were read.
const MOST_INFLATED: usize = 32 << 20;

/// So long may one be.
const LONGEST: usize = 1 << 20;

/// So many commits may all walks come by.
const MOST_STEPS: usize = 1_000_000;

/// What stands before the objects.
const HEAD: usize = 12;

/// Whether more bytes could tell more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The next bytes may hold more commits.
    More,
    /// All that will be known is known.
    Over,
}

/// What was read of a pack.
#[derive(Debug)]
pub struct Commits {
    format: Format,
    at: usize,
    left: Option<u32>,
    over: bool,
    inflated: usize,
    by_offset: HashMap<usize, Vec<u8>>,
    by_id: HashMap<Id, usize>,
    parents: HashMap<Id, Vec<Id>>,
    cut: HashSet<Id>,
    steps: Cell<usize>,
}

/// What a walk from a commit found.
#[derive(Debug, PartialEq, Eq)]
pub enum Walk {
    /// It leads there.
    Leads,
    /// It leads to these, whose parents are not known here, and they may lead there.
    Leaves(Vec<Id>),
    /// All walks together took too many steps.
    TooFar,
}

enum Object {
    Commit(Vec<u8>),
    Tag(usize),
    Other,
}

impl Commits {
    /// Of a pack that names objects so.
    pub fn new(format: Format) -> Commits {
        Commits {
            format,
            at: 0,
            left: None,
            over: false,
            inflated: 0,
            by_offset: HashMap::new(),
            by_id: HashMap::new(),
            parents: HashMap::new(),
            cut: HashSet::new(),
            steps: Cell::new(0),
        }
    }

    /// These lead nowhere: a host that takes shallow roots forgets their parents.
    pub fn cut(mut self, roots: &[Id]) -> Commits {
        self.cut.extend(roots.iter().cloned());
        self
    }

    /// Goes on in `bytes`, which begin where the pack does and only grow.
    pub fn read(&mut self, bytes: &[u8]) -> Reading {
        while !self.over {
            match self.step(bytes) {
                Some(true) => {}
                Some(false) if bytes.len() >= MOST_BYTES => self.over = true,
                Some(false) => return Reading::More,
                None => self.over = true,
            }
        }
        Reading::Over
    }

    /// Where a commit leads, by what was read.
    pub fn walk(&self, from: &Id, to: &Id) -> Walk {
        let mut open = vec![from];
        let mut seen = HashSet::from([from]);
        let mut leaves = Vec::new();
        while let Some(id) = open.pop() {
            if id == to {
                return Walk::Leads;
            }
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > MOST_STEPS {
                return Walk::TooFar;
            }
            match self.parents.get(id) {
                _ if self.cut.contains(id) => {}
                Some(parents) => open.extend(parents.iter().filter(|parent| seen.insert(parent))),
                None => leaves.push(id.clone()),
            }
        }
        Walk::Leaves(leaves)
    }

    /// One object. `Some(false)`: it is not whole yet; `None`: nothing more is learned.
    fn step(&mut self, bytes: &[u8]) -> Option<bool> {
        let Some(left) = self.left else {
            let Some(head) = bytes.first_chunk::<HEAD>() else { return Some(false) };
            let count = head.strip_prefix(b"PACK\0\0\0\x02").and_then(|rest| rest.first_chunk());
            self.left = Some(u32::from_be_bytes(*count?));
            self.at = HEAD;
            return Some(true);
        };
        let left = left.checked_sub(1)?;
        let start = self.at;
        let Some((object, end)) = self.object(bytes, start)? else { return Some(false) };
        (self.left, self.at) = (Some(left), end);
        match object {
            Object::Commit(content) => self.keep(start, content)?,
            Object::Tag(length) => self.count(length)?,
            Object::Other => return None,
        }
        Some(true)
    }

    /// The object that begins there, and where it ends; `None` inside: not whole yet.
    #[expect(clippy::option_option, reason = "broken, not whole yet, and whole")]
    fn object(&self, bytes: &[u8], start: usize) -> Option<Option<(Object, usize)>> {
        let Some((kind, size, mut at)) = head(bytes, start)? else { return Some(None) };
        if size > LONGEST {
            return None;
        }
        let base = match kind {
            1 | 4 => None,
            6 => {
                let Some((back, end)) = offset(bytes, at)? else { return Some(None) };
                at = end;
                // What is made from something else than a commit is none.
                Some(self.by_offset.get(&start.checked_sub(back)?)?)
            }
            7 => {
                let end = at.checked_add(self.format.length())?;
                let Some(id) = bytes.get(at..end) else { return Some(None) };
                at = end;
                Some(self.by_offset.get(self.by_id.get(&Id::of(id))?)?)
            }
            _ => return Some(Some((Object::Other, at))),
        };
        let Some((content, end)) = inflate(bytes, at, size)? else { return Some(None) };
        let object = match (kind, base) {
            (4, _) => Object::Tag(size),
            (_, None) => Object::Commit(content),
            (_, Some(base)) => Object::Commit(delta::apply(base, &content, LONGEST)?),
        };
        Some(Some((object, end)))
    }

    /// What is unpacked takes time, whether it is kept or not.
    fn count(&mut self, length: usize) -> Option<()> {
        self.inflated = self.inflated.checked_add(length)?;
        (self.inflated <= MOST_INFLATED).then_some(())
    }

    fn keep(&mut self, start: usize, content: Vec<u8>) -> Option<()> {
        self.count(content.len())?;
        let id = name(&content, self.format);
        let parents = parents(&content, self.format);
        self.parents.insert(id.clone(), parents);
        self.by_id.insert(id, start);
        self.by_offset.insert(start, content);
        Some(())
    }
}

/// What a commit of this content is called.
fn name(content: &[u8], format: Format) -> Id {
    let head = format!("commit {}\0", content.len());
    match format {
        Format::Sha1 => {
            Id::of(&sha1::Sha1::new().chain_update(head).chain_update(content).finalize())
        }
        Format::Sha256 => {
            Id::of(&sha2::Sha256::new().chain_update(head).chain_update(content).finalize())
        }
    }
}

/// The parents, read as git does: lines right after the tree's, each with its end.
pub fn parents(content: &[u8], format: Format) -> Vec<Id> {
    let mut lines = content.split_inclusive(|byte| *byte == b'\n');
    let id =
        |line: &[u8], name: &[u8]| Id::parse(line.strip_suffix(b"\n")?.strip_prefix(name)?, format);
    if lines.next().and_then(|line| id(line, b"tree ")).is_none() {
        return Vec::new();
    }
    lines.map_while(|line| id(line, b"parent ")).collect()
}

type Known<T> = Option<Option<T>>;

/// Type and size of an object, and where what follows begins.
fn head(bytes: &[u8], start: usize) -> Known<(u8, usize, usize)> {
    let Some(first) = bytes.get(start) else { return Some(None) };
    let (kind, mut size) = ((first >> 4) & 7, usize::from(first & 15));
    let (mut at, mut shift, mut last) = (start + 1, 4_u32, *first);
    while last & 0x80 != 0 {
        let Some(byte) = bytes.get(at) else { return Some(None) };
        let part = usize::from(byte & 0x7f);
        if shift > 50 {
            return None;
        }
        size |= part << shift;
        (at, shift, last) = (at + 1, shift + 7, *byte);
    }
    Some(Some((kind, size, at)))
}

/// How far back the base is.
fn offset(bytes: &[u8], start: usize) -> Known<(usize, usize)> {
    let (mut at, mut value) = (start, 0_usize);
    loop {
        let Some(byte) = bytes.get(at) else { return Some(None) };
        value = value.checked_add(usize::from(byte & 0x7f))?;
        at += 1;
        if byte & 0x80 == 0 {
            return Some(Some((value, at)));
        }
        value = value.checked_add(1)?.checked_mul(128)?;
    }
}

/// What is packed there, of exactly this size, and where it ends.
fn inflate(bytes: &[u8], start: usize, size: usize) -> Known<(Vec<u8>, usize)> {
    let packed = bytes.get(start..)?;
    // One byte of room more: what is too long shows by it.
    let mut out = Vec::with_capacity(size + 1);
    let mut stream = Decompress::new(true);
    let status = stream.decompress_vec(packed, &mut out, FlushDecompress::None).ok()?;
    let taken = usize::try_from(stream.total_in()).ok()?;
    match status {
        Status::StreamEnd if out.len() == size => Some(Some((out, start + taken))),
        Status::StreamEnd => None,
        Status::Ok | Status::BufError if out.len() <= size && taken >= packed.len() => Some(None),
        Status::Ok | Status::BufError => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn zip(content: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn object(kind: u8, content: &[u8], between: &[u8]) -> Vec<u8> {
        let mut size = content.len();
        let mut head = vec![(kind << 4) | u8::try_from(size & 15).unwrap()];
        size >>= 4;
        while size > 0 {
            *head.last_mut().unwrap() |= 0x80;
            head.push(u8::try_from(size & 0x7f).unwrap());
            size >>= 7;
        }
        [head, between.to_vec(), zip(content)].concat()
    }

    fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
        let count = u32::try_from(objects.len()).unwrap().to_be_bytes();
        [b"PACK\0\0\0\x02".to_vec(), count.to_vec(), objects.concat()].concat()
    }

    fn commit(parents: &[&Id], text: &str) -> (Vec<u8>, Id) {
        let mut content = format!("tree {}\n", "a".repeat(40)).into_bytes();
        for parent in parents {
            content.extend([b"parent ", parent.digits(), b"\n"].concat());
        }
        content.extend(format!("author x\n\n{text}\n").into_bytes());
        let id = name(&content, Format::Sha1);
        (content, id)
    }

    fn read(bytes: &[u8]) -> Commits {
        let mut commits = Commits::new(Format::Sha1);
        for end in 0..bytes.len() {
            if commits.read(&bytes[..end]) == Reading::Over {
                return commits;
            }
        }
        commits.read(bytes);
        commits
    }

    fn read_at_once(bytes: &[u8]) -> Commits {
        let mut commits = Commits::new(Format::Sha1);
        commits.read(bytes);
        commits
    }

    #[test]
    fn a_commit_is_proof_of_its_parents() {
        let old = Id::parse(&[b'1'; 40], Format::Sha1).unwrap();
        let other = Id::parse(&[b'2'; 40], Format::Sha1).unwrap();
        let (first, first_id) = commit(&[&old], "one");
        let (second, second_id) = commit(&[&other, &first_id], "two");
        let objects = [object(1, &second, b""), object(1, &first, b""), object(2, b"t", b"")];
        let commits = read(&pack(&objects));
        assert_eq!(commits.walk(&second_id, &old), Walk::Leads);
        assert_eq!(commits.walk(&first_id, &other), Walk::Leaves(vec![old.clone()]));
        assert_eq!(commits.walk(&other, &old), Walk::Leaves(vec![other.clone()]));
        // What stands behind something else is not read.
        let objects = [object(2, b"t", b""), object(1, &first, b"")];
        assert_eq!(
            read(&pack(&objects)).walk(&first_id, &old),
            Walk::Leaves(vec![first_id.clone()])
        );
        // A message is no list of parents.
        let (lying, lying_id) = commit(&[], &format!("parent {}", "1".repeat(40)));
        let commits = read(&pack(&[object(1, &lying, b"")]));
        assert_eq!(commits.walk(&lying_id, &old), Walk::Leaves(vec![]));
    }

    #[test]
    fn a_parent_that_git_does_not_read_is_none() {
        let (tree, one, two) = ("a".repeat(40), "1".repeat(40), "2".repeat(40));
        for (content, count) in [
            (format!("tree {tree}\nparent {one}\nparent {two}\nauthor x\n"), 2),
            (format!("tree {tree}\nparent {one}\n"), 1),
            (format!("tree {tree}\nparent {one}"), 0),
            (format!("tree {tree}\nauthor x\nparent {one}\n"), 0),
            (format!("tree {tree}\n\nparent {one}\n"), 0),
            (format!("tree {tree} \nparent {one}\n"), 0),
            (format!("tree {tree}\nparent {one} \nauthor x\n"), 0),
            (format!("parent {one}\ntree {tree}\n"), 0),
            (format!("tree {tree}\nparent  {one}\nauthor x\n"), 0),
            (format!("tree {tree}\nParent {one}\nauthor x\n"), 0),
        ] {
            assert_eq!(parents(content.as_bytes(), Format::Sha1).len(), count, "{content}");
        }
    }

    #[test]
    fn commits_that_are_made_from_others_are_read() {
        let old = Id::parse(&[b'1'; 40], Format::Sha1).unwrap();
        let (first, first_id) = commit(&[&old], &"one ".repeat(9));
        let (second, second_id) = commit(&[&first_id], &"two ".repeat(9));
        // All of it new: the base's length, the result's, pieces of 127 bytes.
        let mut made = vec![u8::try_from(first.len() & 0x7f).unwrap() | 0x80, 1];
        made.extend([u8::try_from(second.len() & 0x7f).unwrap() | 0x80, 1]);
        for piece in second.chunks(127) {
            made.push(u8::try_from(piece.len()).unwrap());
            made.extend(piece);
        }
        assert!((128..256).contains(&first.len()) && (128..256).contains(&second.len()));
        let base = object(1, &first, b"");
        let back = u8::try_from(base.len()).unwrap();
        let back = if back < 128 { vec![back] } else { vec![0x80, back - 128] };
        let raw: Vec<u8> = (0..20)
            .map(|at| {
                let text = std::str::from_utf8(&first_id.digits()[at * 2..at * 2 + 2]).unwrap();
                u8::from_str_radix(text, 16).unwrap()
            })
            .collect();
        for made in [object(6, &made, &back), object(7, &made, &raw)] {
            let commits = read(&pack(&[base.clone(), made.clone()]));
            assert_eq!(commits.walk(&second_id, &old), Walk::Leads);
            let alone = read(&pack(&[made]));
            assert_eq!(alone.walk(&second_id, &old), Walk::Leaves(vec![second_id.clone()]));
        }
    }

    #[test]
    fn what_is_broken_tells_nothing() {
        let (first, first_id) = commit(&[], "one");
        let good = pack(&[object(1, &first, b"")]);
        let id = |commits: &Commits| commits.parents.contains_key(&first_id);
        assert!(id(&read(&good)));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            let mut commits = Commits::new(Format::Sha1);
            commits.read(&bad);
            // The number of objects and the digest of zlib's may differ; no more.
            assert!(!id(&commits) || (8..12).contains(&at), "{at}");
        }
        let mut commits = Commits::new(Format::Sha1);
        assert_eq!(commits.read(b"0000000000000000"), Reading::Over);
        // Many that are small only as they are packed.
        let large = object(4, &vec![b'x'; LONGEST], b"");
        let few = [vec![large.clone(); 3], vec![object(1, &first, b"")]].concat();
        assert!(id(&read_at_once(&pack(&few))));
        let many = [vec![large; MOST_INFLATED / LONGEST + 1], vec![object(1, &first, b"")]];
        assert!(!id(&read_at_once(&pack(&many.concat()))));
        let bomb = object(1, &vec![b'x'; LONGEST + 1], b"");
        assert_eq!(Commits::new(Format::Sha1).read(&pack(&[bomb])), Reading::Over);
    }
}
