//! Reads `.env`: names and values, no program.
//!
//! Own code because what there is (dotenvy) puts other variables into values, and
//! stops being exact where a token has a `$` or `#` in it. Here nothing is replaced.
//! Must not: print a value.

use std::fs;
use std::path::Path;

use zeroize::Zeroizing;

use super::{HostError, failed, refused};

/// The largest file that is read.
const LARGEST: u64 = 65_536;

/// A name, its value, and the line that it stands in.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) value: Zeroizing<String>,
}

/// Every key of a file, in its order; none where there is no file.
pub(super) fn read(path: &Path) -> Result<Vec<Key>, HostError> {
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    if !about.is_file() || about.len() > LARGEST {
        return Err(refused(path, format!("is not a file of at most {LARGEST} bytes")));
    }
    let bytes = Zeroizing::new(fs::read(path).map_err(failed("read", path))?);
    let text = std::str::from_utf8(&bytes)
        .map_err(|_at| refused(path, "is not UTF-8: write it anew with an editor"))?;
    let mut keys: Vec<Key> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| HostError::Line {
            path: path.to_owned(),
            line: number + 1,
            why: why.to_owned(),
        };
        let Some(key) = key(line).map_err(wrong)? else { continue };
        if keys.iter().any(|other| other.name == key.name) {
            return Err(wrong("this name was given above: leave one of the two"));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// One line; nothing where it is empty or a comment.
fn key(line: &str) -> Result<Option<Key>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) =
        line.split_once('=').ok_or("not NAME=VALUE: write it so, or put # before it")?;
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !name.starts_with(letter) || !name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        return Err("a name has letters, digits and _ alone, and no space before the =");
    }
    let value = value_of(value.trim())?;
    if value.chars().any(char::is_control) {
        return Err("the value has a control character: keys are one line of text");
    }
    Ok(Some(Key { name: name.to_owned(), value }))
}

/// A value: in single quotes as it is, in double quotes with `\"` and `\\`, else up
/// to ` #`.
fn value_of(text: &str) -> Result<Zeroizing<String>, &'static str> {
    const BEHIND: &str = "something follows the closing quote: only a # comment may";
    let comment = |rest: &str| rest.trim().is_empty() || rest.trim_start().starts_with('#');
    if let Some(rest) = text.strip_prefix('\'') {
        let (value, rest) = rest.split_once('\'').ok_or("a quote is not closed on its line")?;
        return if comment(rest) { Ok(Zeroizing::new(value.to_owned())) } else { Err(BEHIND) };
    }
    let Some(rest) = text.strip_prefix('"') else {
        let end = text.find(" #").or_else(|| text.find("\t#")).unwrap_or(text.len());
        let value = text.get(..end).unwrap_or(text);
        return Ok(Zeroizing::new(value.trim_end().to_owned()));
    };
    let mut value = Zeroizing::new(String::with_capacity(rest.len()));
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if comment(letters.as_str()) => return Ok(value),
            '"' => return Err(BEHIND),
            '\\' => match letters.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => value.push(next),
                _ => return Err("only \\\" \\\\ \\$ and \\` may stand behind a \\ in quotes"),
            },
            other => value.push(other),
        }
    }
    Err("a quote is not closed on its line")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<(String, String)> {
        key(line).expect(line).map(|key| (key.name, key.value.to_string()))
    }

    #[test]
    fn lines_of_an_env_file_are_read() {
        let is = |line: &str, name: &str, value: &str| {
            assert_eq!(one(line), Some((name.to_owned(), value.to_owned())), "{line}");
        };
        is("A=b", "A", "b");
        is("  export A=b  ", "A", "b");
        is("A=", "A", "");
        is("A=b=c", "A", "b=c");
        is("A=a#b # said", "A", "a#b");
        is("A='a b # c' # said", "A", "a b # c");
        is(r#"A="a \"b\" $HOME # c""#, "A", r#"a "b" $HOME # c"#);
        is(r#"A="\$x\\""#, "A", r"$x\");
        assert_eq!(one(""), None);
        assert_eq!(one("  # A=b"), None);
    }

    #[test]
    fn what_is_no_key_is_an_error_that_does_not_show_the_value() {
        let lines =
            ["hunter2", "A b=hunter2", "1A=hunter2", "A='hunter2", "A=\"hunter2", "=hunter2"];
        for line in lines.into_iter().chain(["A='hunter2' x", r#"A="hunter2\n""#, "A=hun\u{1}ter2"])
        {
            let why = key(line).err().expect(line);
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn the_line_of_an_error_is_named_and_a_name_stands_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".env");
        assert!(read(&path).expect("none is well").is_empty());
        fs::write(&path, "A=1\n\nB\n").expect("written");
        let error = read(&path).err().expect("an error").to_string();
        assert!(error.contains(".env:3: not NAME=VALUE"), "{error}");
        fs::write(&path, "A=1\r\nA=2\r\n").expect("written");
        assert!(read(&path).err().expect("an error").to_string().contains(":2: this name"));
    }
}
