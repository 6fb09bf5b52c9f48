//! How one option is written in a grammar.
//!
//! Owns: the notation, `-o --[no-]push-option=`. Must not: know other options.

use super::table::{NUMBER, Takes};

/// One option, as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notation<'a> {
    /// Each with whether it is the negated form. The first is not.
    pub(super) spellings: Vec<(String, bool)>,
    pub(super) takes: Takes,
    /// With [`Takes::Words`].
    pub(super) words: Vec<&'a str>,
}

/// Reads one option. The error is a sentence without its subject.
pub(super) fn parse(said: &str) -> Result<Notation<'_>, String> {
    let mut notation = Notation { spellings: Vec::new(), takes: Takes::Nothing, words: Vec::new() };
    let mut counted = false;
    for word in said.split_ascii_whitespace() {
        let (negated, word) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let (spelling, takes, words) = suffix(word)?;
        if takes != Takes::Nothing {
            if negated || notation.takes != Takes::Nothing {
                return Err("says more than once what value it takes".to_owned());
            }
            notation.takes = takes;
            notation.words = words;
        }
        counted |= takes == Takes::Number;
        if let Some(name) = spelling.strip_prefix("--[no-]") {
            push(&mut notation, format!("--{name}"), negated)?;
            push(&mut notation, format!("--no-{name}"), !negated)?;
        } else {
            push(&mut notation, spelling.to_owned(), negated)?;
        }
    }
    if counted && notation.spellings.len() > 1 {
        return Err(format!("{NUMBER} has no other spelling"));
    }
    if notation.spellings.first().is_none_or(|(_, negated)| *negated) {
        return Err("begins with a spelling that is not negated".to_owned());
    }
    Ok(notation)
}

/// A spelling, and what it says about a value.
fn suffix(word: &str) -> Result<(&str, Takes, Vec<&str>), String> {
    if word == NUMBER {
        return Ok((word, Takes::Number, Vec::new()));
    }
    let ends = [("[=]", Takes::Attached), ("=?", Takes::Last), ("=", Takes::Value)];
    for (end, takes) in ends {
        if let Some(spelling) = word.strip_suffix(end) {
            return Ok((spelling, takes, Vec::new()));
        }
    }
    if let Some((spelling, list)) = word.strip_suffix('}').and_then(|word| word.split_once('{')) {
        let words: Vec<&str> = list.split(',').collect();
        if words.iter().any(|word| word.is_empty()) {
            return Err("has an empty word in its braces".to_owned());
        }
        return Ok((spelling, Takes::Words, words));
    }
    Ok((word, Takes::Nothing, Vec::new()))
}

fn push(notation: &mut Notation<'_>, spelling: String, negated: bool) -> Result<(), String> {
    let name = spelling.trim_start_matches('-');
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"=[]{}!".contains(&byte);
    if name.len() == spelling.len() || name.is_empty() || !spelling.bytes().all(plain) {
        return Err(format!(
            "{spelling:?} is not a spelling: dashes, then plain characters, then how it takes a \
             value (nothing, =, =?, [=] or {{words}})"
        ));
    }
    if spelling.len() > usize::from(u8::MAX) {
        return Err("is longer than 255 bytes".to_owned());
    }
    if notation.spellings.iter().any(|(known, _)| *known == spelling) {
        return Err(format!("has {spelling} twice"));
    }
    notation.spellings.push((spelling, negated));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_its_spellings_and_how_it_takes_a_value() {
        let cases: &[(&str, &str, Takes)] = &[
            ("-f --force", "-f --force", Takes::Nothing),
            ("--[no-]verify", "--verify !--no-verify", Takes::Nothing),
            ("-n --no-verify !--verify", "-n --no-verify !--verify", Takes::Nothing),
            ("-o --[no-]push-option=", "-o --push-option !--no-push-option", Takes::Value),
            ("-S --gpg-sign[=]", "-S --gpg-sign", Takes::Attached),
            ("--contains=?", "--contains", Takes::Last),
            ("--browser{true,false}", "--browser", Takes::Words),
            ("-<n>", "-<n>", Takes::Number),
            ("-#  --progress-bar", "-# --progress-bar", Takes::Nothing),
            ("-:", "-:", Takes::Nothing),
        ];
        for (said, spellings, takes) in cases {
            let notation = parse(said).unwrap();
            let shown = |(text, negated): &(String, bool)| {
                format!("{}{text}", if *negated { "!" } else { "" })
            };
            let shown: Vec<_> = notation.spellings.iter().map(shown).collect();
            assert_eq!(shown.join(" "), *spellings);
            assert_eq!(notation.takes, *takes, "{said}");
        }
        assert_eq!(parse("--color{always,true}").unwrap().words, ["always", "true"]);
    }

    #[test]
    fn what_is_no_option_is_refused() {
        let cases = [
            ("", "begins with a spelling"),
            ("force", "not a spelling"),
            ("--", "not a spelling"),
            ("--a=b", "not a spelling"),
            ("--a= --b=", "more than once"),
            ("--a --a", "has --a twice"),
            ("!--a", "not negated"),
            ("-n -<n>", "no other spelling"),
            ("--a{b,}", "empty word"),
            ("--é", "not a spelling"),
        ];
        for (said, expected) in cases {
            let error = parse(said).unwrap_err();
            assert!(error.contains(expected), "{said}: {error}");
        }
        assert!(parse(&format!("--{}", "a".repeat(254))).is_err());
    }
}
