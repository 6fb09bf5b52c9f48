//! Paths as bytes, resolved by their words alone.
//!
//! Owns: whether a path is another one or lies beneath it. Components are
//! compared, never beginnings of strings. Must not: look at a disk; where a
//! symlink could make the difference the answer is that it cannot be known.

use crate::truth::Truth;

/// Whether `path`, seen from `directory`, is `root` or lies beneath it. `root`
/// and `directory` are absolute and resolved.
pub(super) fn is_beneath(path: &[u8], directory: &[u8], root: &[u8]) -> Truth {
    let Some(resolved) = resolve(path, directory) else { return Truth::Unknown };
    if resolved.doubtful {
        return Truth::Unknown;
    }
    let mut own = resolved.components.iter();
    Truth::from(components(root).all(|component| own.next() == Some(&component)))
}

/// Where a path leads.
struct Resolved<'a> {
    components: Vec<&'a [u8]>,
    /// What it leads to may be another place than its words say.
    doubtful: bool,
}

fn resolve<'a>(path: &'a [u8], directory: &'a [u8]) -> Option<Resolved<'a>> {
    let absolute = path.first()? == &b'/';
    if !absolute && directory.first() != Some(&b'/') {
        return None;
    }
    let mut all = if absolute { Vec::new() } else { components(directory).collect() };
    // The directory is resolved: `..` out of it leads where it says. A name of
    // the caller's may be a symlink, and `..` behind it leads anywhere.
    let mut real = all.len();
    let mut doubtful = false;
    for component in components(path) {
        if component != b".." {
            all.push(component);
            continue;
        }
        doubtful |= all.len() > real;
        all.pop();
        real = real.min(all.len());
    }
    // Links of the kernel's, which lead to other places by design.
    doubtful |= matches!(all.as_slice(), [b"proc", _, ..] | [b"dev", b"fd", ..]);
    Some(Resolved { components: all, doubtful })
}

/// The components that say something.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b"."))
}
