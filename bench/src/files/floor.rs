//! The system calls of the same work alone, in one process: what no server is faster than.
//!
//! Owns: the least that each work is, natively, with one and with several threads. No name is
//! resolved beneath a root, nothing is locked, checked, hashed or said as JSON.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags};

use crate::work::at;
use crate::{AT_ONCE, Outcome, median};

/// A work, and whose name of the server's work it has.
pub struct Floor {
    pub of: &'static str,
    pub how: &'static str,
    run: fn(&mut Place) -> Outcome<()>,
}

/// Where a thread does it.
struct Place {
    root: PathBuf,
    number: usize,
    buffer: Vec<u8>,
    /// Something that reads all that is written.
    reader: UnixStream,
}

pub const ALL: &[Floor] = &[
    Floor {
        of: "read 1 KiB",
        how: "open, fstat, read, close",
        run: |place| read(place, "1k").map(drop),
    },
    Floor {
        of: "read 512 KiB",
        how: "the same, and written into a socket to a thread that reads it",
        run: |place| {
            let length = read(place, "512k")?;
            place.reader.write_all(&place.buffer[..length])?;
            let mut all = [0];
            Ok(place.reader.read_exact(&mut all)?)
        },
    },
    Floor {
        of: "edit a line of 1 KiB",
        how: "open, fstat, read; O_CREAT and O_EXCL, write, rename; close",
        run: |place| replace(place, create, over),
    },
    Floor {
        of: "edit a line of 1 KiB",
        how: "the same with O_TMPFILE and linkat",
        run: |place| replace(place, unnamed, over),
    },
    Floor {
        of: "edit a line of 1 KiB",
        how: "O_TMPFILE, linkat, RENAME_EXCHANGE, unlink; not written out",
        run: |place| replace(place, unnamed, exchange),
    },
    Floor { of: "list 100 files with sizes", how: "open, getdents, 100 statx, close", run: list },
];

impl Floor {
    /// How long it takes, in seconds, and how many a second by several threads at once.
    pub fn measure(&self, root: &Path, rounds: usize) -> Outcome<(f64, f64)> {
        let mut place = Place::new(root, 0)?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let begun = Instant::now();
            (self.run)(&mut place)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let mut rates = Vec::new();
        for _ in 0..5 {
            let mut places =
                (0..AT_ONCE).map(|number| Place::new(root, number)).collect::<Outcome<Vec<_>>>()?;
            let begun = Instant::now();
            std::thread::scope(|scope| {
                let run = |place| scope.spawn(move || self.some(place, rounds / AT_ONCE));
                let threads: Vec<_> = places.iter_mut().map(run).collect();
                let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                    Ok(done) => done,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                threads.into_iter().try_for_each(ended)
            })?;
            rates.push((rounds / AT_ONCE * AT_ONCE) as f64 / begun.elapsed().as_secs_f64());
        }
        Ok((median(&mut times), median(&mut rates)))
    }

    fn some(&self, place: &mut Place, rounds: usize) -> Result<(), String> {
        let all = (0..rounds).try_for_each(|_| (self.run)(place));
        all.map_err(|error| format!("{}: {error}", self.how))
    }
}

impl Place {
    fn new(root: &Path, number: usize) -> Outcome<Place> {
        let (reader, other) = UnixStream::pair()?;
        std::thread::spawn(move || drain(other));
        Ok(Place { root: root.to_owned(), number, buffer: vec![0; 1 << 20], reader })
    }
}

/// Reads 512 KiB, says so, and again.
fn drain(mut from: UnixStream) -> std::io::Result<()> {
    let (mut buffer, mut come) = (vec![0; 256 << 10], 0);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            some => come += some,
        }
        if come == crate::tree::LONG {
            come = 0;
            from.write_all(b"!")?;
        }
    }
}

fn read(place: &mut Place, which: &str) -> Outcome<usize> {
    take(&mut place.buffer, &at(&place.root, &format!("small/{which}.txt")))
}

fn take(buffer: &mut [u8], path: &str) -> Outcome<usize> {
    let mut file = File::open(path)?;
    file.metadata()?;
    Ok(file.read(buffer)?)
}

/// Makes a file of that name with that content, in a directory.
type New = fn(&str, &str, &[u8]) -> Outcome<OwnedFd>;

/// Another file takes the name of one.
fn replace(place: &mut Place, new: New, take_over: fn(&str, &str) -> Outcome<()>) -> Outcome<()> {
    let path = at(&place.root, &format!("small/ours{}.txt", place.number));
    let aside = at(&place.root, &format!("small/.floor{}", place.number));
    let length = take(&mut place.buffer, &path)?;
    let file = new(&at(&place.root, "small"), &aside, &place.buffer[..length])?;
    take_over(&aside, &path)?;
    drop(file);
    Ok(())
}

fn create(_: &str, name: &str, bytes: &[u8]) -> Outcome<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, bytes)?;
    Ok(file)
}

fn unnamed(directory: &str, name: &str, bytes: &[u8]) -> Outcome<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, bytes)?;
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, from, CWD, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(file)
}

fn over(from: &str, name: &str) -> Outcome<()> {
    Ok(rustix::fs::rename(from, name)?)
}

fn exchange(from: &str, name: &str) -> Outcome<()> {
    rustix::fs::renameat_with(CWD, from, CWD, name, RenameFlags::EXCHANGE)?;
    Ok(rustix::fs::unlink(from)?)
}

fn list(place: &mut Place) -> Outcome<()> {
    let path = CString::new(at(&place.root, "tree/pkg000/mod0"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let mut room = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(&directory, room.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        rustix::fs::statat(&directory, entry?.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
