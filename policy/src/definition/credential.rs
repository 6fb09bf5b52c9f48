//! Where a credential is, and how it is added, as definitions write it.
//!
//! Owns: the forms of `credential`, `key` and `scheme`. Must not: read what they
//! name. A value that somebody wrote here by mistake is not repeated.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::gate::{Credential, Scheme};

/// How long what a command printed is good, where the definition does not say.
pub(super) const TTL: Duration = Duration::from_secs(300);

/// Headers that say how a message is framed or where it goes.
const FRAMING: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// `file:PATH`, `env:NAME` or `command:PROGRAM ARGS`.
pub(super) fn read(text: &str) -> Result<Credential, String> {
    // The text itself is not shown: it may be the secret.
    let forms = || "must be \"file:/PATH\", \"env:NAME\" or \"command:/PROGRAM ARGS\"".to_owned();
    let (form, rest) = text.split_once(':').ok_or_else(forms)?;
    match form {
        "file" => {
            let path = absolute(rest).ok_or("is a file: it must be an absolute path without ..")?;
            Ok(Credential::File(path))
        }
        "env" if is_variable(rest) => Ok(Credential::Env(rest.to_owned())),
        "env" => Err("is a variable of the server: env:NAME, of A-Z a-z 0-9 _".to_owned()),
        "command" => {
            let words: Vec<String> = rest
                .split([' ', '\t'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            let program = words.first().and_then(|program| absolute(program));
            match program.is_some() && !rest.contains(char::is_control) {
                true => Ok(Credential::Command { words, ttl: TTL }),
                false => Err("is a command: it must begin with the absolute path of a program, \
                              its words divided by blanks"
                    .to_owned()),
            }
        }
        _ => Err(forms()),
    }
}

/// `bearer`, `token`, `basic:USER` or `header:NAME`.
pub(super) fn scheme(text: &str) -> Result<Scheme, String> {
    let forms = || {
        format!(
            "scheme must be \"bearer\", \"token\", \"basic:USER\" or \"header:NAME\", not {text:?}"
        )
    };
    match text {
        "bearer" => return Ok(Scheme::Bearer),
        "token" => return Ok(Scheme::Token),
        _ => {}
    }
    match text.split_once(':').ok_or_else(forms)? {
        ("basic", user) => {
            let plain = !user.is_empty() && !user.contains(|c: char| c == ':' || c.is_control());
            match plain {
                true => Ok(Scheme::Basic(user.to_owned())),
                false => Err(format!("scheme: {user:?} is no user's name for basic")),
            }
        }
        ("header", name) if !is_token(name) => {
            Err(format!("scheme: {name:?} is not a header's name"))
        }
        ("header", name) if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) => {
            Err(format!("scheme: {name} says where a message goes or ends: it cannot be set"))
        }
        ("header", name) => Ok(Scheme::Header(name.to_owned())),
        _ => Err(forms()),
    }
}

/// An absolute path whose name says where it lies.
pub(super) fn absolute(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let plain = |part: Component<'_>| !matches!(part, Component::ParentDir);
    let good = path.is_absolute() && !text.contains('\0') && path.components().all(plain);
    good.then(|| path.to_owned())
}

/// A token of HTTP: a method, the name of a header.
pub(super) fn is_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

fn is_variable(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(plain) && !text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_place_and_never_shown_where_it_is_wrong() {
        assert_eq!(read("file:/run/x"), Ok(Credential::File("/run/x".into())));
        assert_eq!(read("env:A_1"), Ok(Credential::Env("A_1".into())));
        let words = vec!["/bin/cat".to_owned(), "x".to_owned(), "y".to_owned()];
        assert_eq!(read("command:/bin/cat x  y"), Ok(Credential::Command { words, ttl: TTL }));
        for wrong in [
            "",
            "ghp_SECRET",
            "SECRET:x",
            "file:SECRET",
            "file:/x/../SECRET",
            "env:",
            "env:1SECRET",
            "env:SECRET=1",
            "command:SECRET x",
            "command:",
            "command:/bin/cat \u{1}SECRET",
        ] {
            let message = read(wrong).unwrap_err();
            assert!(!message.contains("SECRET"), "{message}");
        }
    }

    #[test]
    fn a_scheme_is_one_of_four() {
        assert_eq!(scheme("bearer"), Ok(Scheme::Bearer));
        assert_eq!(scheme("token"), Ok(Scheme::Token));
        assert_eq!(scheme("basic:me"), Ok(Scheme::Basic("me".into())));
        assert_eq!(scheme("header:X-Key"), Ok(Scheme::Header("X-Key".into())));
        for wrong in
            ["", "Bearer", "basic", "basic:", "basic:a:b", "header:", "header:A B", "header:Host"]
        {
            assert!(scheme(wrong).is_err(), "{wrong}");
        }
    }
}
