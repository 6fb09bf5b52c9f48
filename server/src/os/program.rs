//! What this process has mapped of its own program.
//!
//! Owns: letting go of it. Must not: touch what was ever written.

use std::path::Path;

/// Unmaps the code that the start has used and that nothing may use again: of several
/// MiB the calls need a part. It stays in the page cache; what is needed comes back
/// from there, some pages at a time.
pub(crate) fn forget_the_start() {
    let Ok(own) = std::fs::read_link("/proc/self/exe") else { return };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (from, to) in maps.lines().filter_map(|line| code(line, &own)) {
        let length = to.saturating_sub(from);
        // SAFETY: a private mapping of the program's code, which nobody can write and
        // nothing is relocated in: its pages are those of the file, and come back so.
        unsafe {
            libc::madvise(std::ptr::without_provenance_mut(from), length, libc::MADV_DONTNEED)
        };
    }
}

/// Where a line of `maps` says that the code of that program is.
fn code(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut words = line.splitn(6, ' ');
    let (from, to) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp";
    let path = words.nth(3)?.trim_start();
    let number = |text| usize::from_str_radix(text, 16).ok();
    (is_code && Path::new(path) == program).then_some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_alone_is_let_go_of() {
        let program = Path::new("/opt/a server");
        let line =
            |rights: &str, path: &str| format!("1000-3000 {rights} 0001 fe:00 12      {path}");
        assert_eq!(code(&line("r-xp", "/opt/a server"), program), Some((0x1000, 0x3000)));
        for other in [line("r--p", "/opt/a server"), line("rw-p", "/opt/a server")] {
            assert_eq!(code(&other, program), None);
        }
        assert_eq!(code(&line("r-xp", "/lib/libc.so.6"), program), None);
        assert_eq!(code("1000-3000 r-xp 0 0:0 0", program), None);
    }

    #[test]
    fn what_was_let_go_of_comes_back() {
        forget_the_start();
        assert_eq!("still here".len(), 10);
    }
}
