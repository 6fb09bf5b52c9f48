//! The first message of TLS, as far as the name in it.
//!
//! Owns: reading a ClientHello from records, within a bound, and the one host name that
//! it asks for. Must not: accept what has two names, or is something else than TLS.
//! With Encrypted ClientHello the name is the outer one.

/// A hello may be this long.
const LONGEST: usize = 32 * 1024;
/// A record's head, and the longest record.
const HEAD: usize = 5;
const RECORD: usize = 16 * 1024;

/// What the bytes that have come so far are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// Not all of it.
    More,
    /// All of it.
    Whole {
        /// The name that it asks for; none where it asks for none.
        name: Option<String>,
        /// Where its last record ends.
        end: usize,
    },
    /// Something else.
    Bad(&'static str),
}

/// Reads the beginning of a connection.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = Reader(bytes);
    loop {
        let Some(kind) = rest.u8() else { return Hello::More };
        if kind != 22 {
            return Hello::Bad("it is not TLS");
        }
        match rest.u8() {
            Some(3) => {}
            Some(_) => return Hello::Bad("it is not TLS"),
            None => return Hello::More,
        }
        let (Some(_), Some(length)) = (rest.u8(), rest.u16()) else { return Hello::More };
        if length == 0 || length > RECORD {
            return Hello::Bad("a record of TLS has a wrong length");
        }
        let whole = rest.0.len() >= length;
        let Some(piece) = rest.take(length.min(rest.0.len())) else { return Hello::More };
        message.extend_from_slice(piece);
        // Judged as soon as its own length is known: nobody waits for what is too long.
        if let Some((&1, after)) = message.split_first() {
            if let Some(length) = Reader(after).u24() {
                if length > LONGEST {
                    return Hello::Bad("the first message of TLS is too long");
                }
                if let Some(body) = after.get(3..length.saturating_add(3)) {
                    // A second message in its record would be one that nobody looks at.
                    return match whole && after.len() == body.len() + 3 {
                        true => name(body, bytes.len() - rest.0.len()),
                        false => Hello::Bad("something follows the first message of TLS"),
                    };
                }
            }
        } else if !message.is_empty() {
            return Hello::Bad("the first message of TLS is not a ClientHello");
        }
        if !whole {
            return Hello::More;
        }
    }
}

/// As many bytes are looked at before a hello has to be whole.
pub(crate) const LOOKED_AT: usize = 2 * (LONGEST + HEAD);

fn name(body: &[u8], end: usize) -> Hello {
    match extension(Reader(body)) {
        Some(Ok(name)) => Hello::Whole { name, end },
        Some(Err(why)) => Hello::Bad(why),
        None => Hello::Bad("the first message of TLS cannot be read"),
    }
}

// `None`: it ends too early.
fn extension(mut body: Reader<'_>) -> Option<Result<Option<String>, &'static str>> {
    body.take(2 + 32)?; // version, random
    let session = usize::from(body.u8()?);
    body.take(session)?;
    let ciphers = body.u16()?;
    body.take(ciphers)?;
    let compressions = usize::from(body.u8()?);
    body.take(compressions)?;
    if body.0.is_empty() {
        return Some(Ok(None));
    }
    let length = body.u16()?;
    let mut extensions = Reader(body.take(length)?);
    if !body.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let length = extensions.u16()?;
        let data = extensions.take(length)?;
        if kind != 0 {
            continue;
        }
        if found.is_some() {
            return Some(Err("the first message of TLS has two names"));
        }
        found = Some(server_name(Reader(data))?);
    }
    Some(found.transpose())
}

fn server_name(mut data: Reader<'_>) -> Option<Result<String, &'static str>> {
    let length = data.u16()?;
    let mut list = Reader(data.take(length)?);
    let kind = list.u8()?;
    let length = list.u16()?;
    let name = list.take(length)?;
    if kind != 0 || !list.0.is_empty() || !data.0.is_empty() {
        return Some(Err("the first message of TLS has two names"));
    }
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let text = std::str::from_utf8(name).ok().filter(|name| name.bytes().all(|byte| plain(&byte)));
    Some(match text {
        Some(name) if !name.is_empty() => Ok(name.to_ascii_lowercase()),
        _ => Err("the name in the first message of TLS is not one"),
    })
}

/// Bytes that are taken from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<usize> {
        match self.take(2)? {
            [high, low] => Some(usize::from(u16::from_be_bytes([*high, *low]))),
            _ => None,
        }
    }

    fn u24(&mut self) -> Option<usize> {
        let high = usize::from(self.u8()?);
        Some((high << 16) | self.u16()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A hello as small as it can be, with these names.
    fn hello(names: &[&str]) -> Vec<u8> {
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
        let mut extensions = Vec::new();
        for name in names {
            let entry = [&[0][..], &length(name.as_bytes()), name.as_bytes()].concat();
            let list = [length(&entry), entry].concat();
            extensions.extend([vec![0, 0], length(&list), list].concat());
        }
        let mut body = vec![3; 34];
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend([length(&extensions), extensions].concat());
        let message = [&[1, 0][..], &length(&body), &body].concat();
        [&[22, 3, 1][..], &length(&message), &message].concat()
    }

    fn whole(bytes: &[u8], name: Option<&str>) -> Hello {
        Hello::Whole { name: name.map(str::to_owned), end: bytes.len() }
    }

    #[test]
    fn a_hello_has_one_name_or_none() {
        let one = hello(&["a.example"]);
        assert_eq!(read(&one), whole(&one, Some("a.example")));
        assert_eq!(read(&hello(&[])), whole(&hello(&[]), None));
        // Two in one record.
        let mut two = [&one[..], &one[HEAD..]].concat();
        two[4] *= 2;
        assert!(matches!(read(&two), Hello::Bad(_)));
        assert!(matches!(read(&two[..two.len() - 1]), Hello::Bad(_)));
        assert!(matches!(read(&hello(&["a.example", "b.example"])), Hello::Bad(_)));
        assert!(matches!(read(&hello(&["a\0b"])), Hello::Bad(_)));
        assert!(matches!(read(&hello(&[""])), Hello::Bad(_)));
    }

    proptest! {
        #[test]
        fn a_hello_is_whole_at_its_end_and_not_before(cut in 0usize..200, tail in any::<Vec<u8>>()) {
            let one = hello(&["a.example"]);
            let cut = cut.min(one.len() - 1);
            prop_assert_eq!(read(&one[..cut]), Hello::More);
            let more = [&one[..], &tail].concat();
            prop_assert_eq!(read(&more), whole(&one, Some("a.example")));
        }

        #[test]
        fn whatever_comes_is_read_without_harm(bytes in any::<Vec<u8>>(), at in 0usize..90, to: u8) {
            read(&bytes);
            let mut turned = hello(&["a.example"]);
            let at = at.min(turned.len() - 1);
            turned[at] = to;
            read(&turned);
            read(&[&[22, 3, 1, 0, 200, 1][..], &bytes].concat());
        }
    }
}
