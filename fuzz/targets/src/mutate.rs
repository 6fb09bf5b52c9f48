//! Inputs from inputs: by bytes, by the words of a dictionary, and by lines.
//!
//! Owns: the mutations, the same for a seed on every machine; dictionaries, in
//! libFuzzer's format. Must not: look at what the target does.

/// Inputs do not grow beyond this.
pub const LONGEST: usize = 4096;

/// Numbers that follow one another without a pattern (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn one<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// A piece of `length` bytes, from where to where.
    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        // Mostly short: a few bytes say more about a parser than half an input.
        let longest = (length - start).min(if self.below(4) == 0 { usize::MAX } else { 8 });
        start..start + self.below(longest + 1)
    }
}

/// Bytes on which parsers tend to turn.
const TURNS: &[u8] = b"\0\x01\x7f\x80\xc3\xff \t\n\r\"'\\/-=:@*?[]{},.+#;09azAZ~^";

/// One more input.
pub fn mutate(random: &mut Random, corpus: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.one(corpus).cloned().unwrap_or_default();
    for _ in 0..=random.below(5) {
        match random.below(14) {
            0 => flip(random, &mut input),
            1 | 2 => set(random, &mut input),
            3 => drop(input.drain(random.piece(input.len()))),
            4 => {
                let byte = if random.below(2) == 0 { random.byte() } else { turn(random) };
                put(random, &mut input, &[byte]);
            }
            5 => {
                let piece = input[random.piece(input.len())].to_vec();
                put(random, &mut input, &piece);
            }
            6..=8 => {
                let word = random.one(words).cloned().unwrap_or_default();
                put(random, &mut input, &word);
            }
            9 => {
                let other = random.one(corpus).cloned().unwrap_or_default();
                let piece = &other[random.piece(other.len())];
                put(random, &mut input, piece);
            }
            10..=12 => lines(random, &mut input, corpus, words),
            _ => {
                // The beginning of one and the end of another.
                let other = random.one(corpus).cloned().unwrap_or_default();
                input.truncate(random.below(input.len() + 1));
                input.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
    input.truncate(LONGEST);
    input
}

fn turn(random: &mut Random) -> u8 {
    random.one(TURNS).copied().unwrap_or_default()
}

fn flip(random: &mut Random, input: &mut [u8]) {
    let at = random.below(input.len());
    let bit = 1 << random.below(8);
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bit;
    }
}

fn set(random: &mut Random, input: &mut [u8]) {
    let at = random.below(input.len());
    let value = if random.below(2) == 0 { random.byte() } else { turn(random) };
    if let Some(byte) = input.get_mut(at) {
        *byte = value;
    }
}

/// Puts a piece in somewhere, or over what is there.
fn put(random: &mut Random, input: &mut Vec<u8>, piece: &[u8]) {
    let at = random.below(input.len() + 1);
    let over = if random.below(3) == 0 { piece.len() } else { 0 };
    let end = (at + over).min(input.len());
    input.splice(at..end, piece.iter().copied());
}

/// Drops a line, doubles one, swaps two, or takes one from another input or the
/// dictionary.
fn lines(random: &mut Random, input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[Vec<u8>]) {
    let mut all: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let (one, other) = (random.below(all.len()), random.below(all.len()));
    let from = random.one(corpus).map(Vec::as_slice).unwrap_or_default();
    match random.below(6) {
        0 => drop(all.remove(one)),
        1 => all.insert(other, all[one]),
        2 => all.swap(one, other),
        3 | 4 => all.insert(one, random.one(words).map_or(b"", |word| word.trim_ascii())),
        _ => {
            let theirs: Vec<&[u8]> = from.split(|byte| *byte == b'\n').collect();
            all.insert(one, theirs[random.below(theirs.len())]);
        }
    }
    *input = all.join(&b'\n');
}

/// The words of a dictionary: lines `"…"` with `\\`, `\"` and `\xNN`; `#` begins
/// a comment. Panics where a line is neither.
pub fn dictionary(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(word).collect()
}

fn word(line: &str) -> Vec<u8> {
    let inner = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut bytes = inner.unwrap_or_else(|| panic!("no word of a dictionary: {line}")).bytes();
    let mut word = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        match bytes.next() {
            Some(byte @ (b'\\' | b'"')) => word.push(byte),
            Some(b'x') => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                let byte = u8::from_str_radix(&digits, 16);
                word.push(byte.unwrap_or_else(|error| panic!("{line}: {error}")));
            }
            _ => panic!("an escape that libFuzzer does not know: {line}"),
        }
    }
    word
}
