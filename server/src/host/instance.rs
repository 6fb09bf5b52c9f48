//! The id of a project: the same for the same directory, whoever asks, and another
//! for every other one.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The longest part that comes from the name. The socket's path holds the id, and
/// must stay below 108 bytes.
const LONGEST: usize = 24;

/// The id of a directory, by its real path: the name as far as it is letters and
/// digits, and eight hexadecimal digits that tell apart what is called the same.
pub(crate) fn instance(real: &Path) -> String {
    let name = real.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let mut id = String::new();
    for byte in name {
        match byte.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => id.push(char::from(letter)),
            _ if id.is_empty() || id.ends_with('-') => {}
            _ => id.push('-'),
        }
        if id.len() == LONGEST {
            break;
        }
    }
    let id = id.trim_end_matches('-');
    let id = if id.is_empty() { "project" } else { id };
    let digest = Sha256::digest(real.as_os_str().as_bytes());
    let tail: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{id}-{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(path: &str) -> String {
        instance(Path::new(path))
    }

    #[test]
    fn an_id_is_the_name_and_a_digest_of_the_path() {
        // printf %s /home/me/app | sha256sum
        assert_eq!(id("/home/me/app"), "app-fd865ce8");
        assert_ne!(id("/home/me/app"), id("/home/you/app"));
        assert!(id("/srv/My Project (2)").starts_with("my-project-2-"));
    }

    #[test]
    fn whatever_a_project_is_called_its_id_is_a_name_for_containers() {
        let names =
            ["/", "/...", "/ü", "/-a-", "/a'b\"c$d", "/x\ny", &format!("/{}", "a".repeat(255))];
        for name in names {
            let id = id(name);
            let (first, digest) = id.rsplit_once('-').expect("a digest");
            assert!(!first.is_empty() && first.len() <= 24 && digest.len() == 8, "{name}: {id}");
            assert!(!id.starts_with('-') && !id.contains("--"), "{name}: {id}");
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(id.chars().all(good), "{name}: {id}");
        }
    }
}
