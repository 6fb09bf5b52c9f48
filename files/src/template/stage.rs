//! Files that take their names together.
//!
//! Owns: a hidden directory beneath the target in which all is written, and where it is to
//! last on disk, before the first name is taken, and the way back: what was replaced lies
//! there until the last name is taken, and goes back where one cannot be. Whoever kills the process in between leaves
//! some files new and some old, each of them whole. Must not: follow a symlink, or remove
//! what somebody else put there meanwhile.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use tool_protocol::Fault;

use super::{called, exist};
use crate::Stop;
use crate::error::{Doing, FileError, shown};
use crate::lock::Held;
use crate::opened::{self, look, raw, same};
use crate::put::{Like, Parents, handed_over, liken, remove, sync};
use crate::root::{open_beneath, open_straight};
use crate::write::other_names;

/// Behind the number of what was replaced, where two files cannot be exchanged.
const ASIDE: &str = ".old";

/// A file to be.
#[derive(Debug)]
pub(super) struct Piece {
    /// Its name beneath the target.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) mode: Option<u32>,
}

/// All of them written, without their names.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    target: BorrowedFd<'a>,
    said: &'a str,
    lasting: bool,
    name: String,
    directory: OwnedFd,
    /// How many files it has, called by their numbers.
    files: usize,
    taken: Vec<Taken>,
    /// Those that files went into, by their names.
    directories: BTreeMap<Vec<Vec<u8>>, Arc<OwnedFd>>,
    /// Last: they are removed when nothing is in them any more.
    made: Parents,
}

/// What a file that was replaced had and its successor has not.
#[derive(Debug, Default)]
pub(super) struct Parted {
    pub(super) other_names: u64,
    pub(super) not_kept: Vec<String>,
}

/// A name that was taken.
#[derive(Debug)]
struct Taken {
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
    /// What has it now.
    stat: FileStat,
    /// What it was taken from lies in the stage, by this number.
    replaced: bool,
    number: usize,
}

/// Whether nothing has that name beneath a directory; an error where it could not be a file.
pub(super) fn is_free(target: BorrowedFd<'_>, name: &str, said: &str) -> Result<bool, FileError> {
    let path = called(said, name);
    match open_straight(target, name.as_bytes(), OFlag::O_PATH | OFlag::O_NOFOLLOW) {
        Ok(open) => opened::regular(open.as_fd(), path.as_bytes()).map(|_| false),
        Err(Errno::ENOENT) => Ok(true),
        Err(Errno::ELOOP) => {
            let message = "goes through a symlink, which no template is written through";
            let message = format!("{} {message}: name its target", shown(path.as_bytes()));
            Err(FileError::said(Fault::NotADirectory, message))
        }
        Err(errno) => Err(FileError::system(Doing::Writing, path.as_bytes(), errno)),
    }
}

impl<'a> Stage<'a> {
    /// Writes them all.
    pub(super) fn write(
        target: BorrowedFd<'a>,
        said: &'a str,
        pieces: &[Piece],
        lasting: bool,
        stop: &Stop,
    ) -> Result<Stage<'a>, FileError> {
        let failed = |errno| FileError::system(Doing::Writing, said.as_bytes(), errno);
        let (name, directory) = hidden(target).map_err(failed)?;
        let mut stage = Stage {
            target,
            said,
            lasting,
            name,
            directory,
            files: 0,
            taken: Vec::new(),
            directories: BTreeMap::new(),
            made: Parents::default(),
        };
        for piece in pieces {
            stop.check()?;
            stage.write_one(piece).map_err(failed)?;
        }
        Ok(stage)
    }

    fn write_one(&mut self, piece: &Piece) -> Result<(), Errno> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let name = self.files.to_string();
        let mode = Mode::from_bits_truncate(0o644);
        let open = open_beneath(self.directory.as_fd(), name.as_bytes(), flags, mode)?;
        self.files += 1;
        let mut file = File::from(open);
        file.write_all(&piece.content).map_err(|error| raw(&error))?;
        if let Some(mode) = piece.mode {
            fchmod(&file, Mode::from_bits_truncate(mode & 0o777))?;
        }
        handed_over(&file, self.lasting)
    }

    /// All take their names, or none does.
    pub(super) fn take(
        mut self,
        pieces: &[Piece],
        over: bool,
        stop: &Stop,
    ) -> Result<Vec<Parted>, FileError> {
        let mut parted = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            stop.check()?;
            parted.push(self.take_one(number, piece, over, stop)?);
        }
        for directory in self.directories.values().filter(|_| self.lasting) {
            sync(directory.as_fd()).map_err(|errno| self.failed(errno))?;
        }
        self.taken.clear();
        std::mem::take(&mut self.made).keep();
        Ok(parted)
    }

    fn take_one(
        &mut self,
        number: usize,
        piece: &Piece,
        over: bool,
        stop: &Stop,
    ) -> Result<Parted, FileError> {
        let mut parted = Parted::default();
        let said = self.said.as_bytes();
        let mut names: Vec<Vec<u8>> =
            piece.name.split('/').map(|part| part.as_bytes().to_vec()).collect();
        let name = names.pop().unwrap_or_default();
        let directory = self.directory_for(names)?;
        let _held = Held::take(directory.as_fd(), &name, said, stop)?;
        let from = number.to_string();
        let staged = fstatat(&self.directory, from.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| self.failed(errno))?;
        let at = OsStr::from_bytes(&name);
        let there = match fstatat(&directory, at, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) => Some(there),
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(self.failed(errno)),
        };
        let replaced = match &there {
            None => self.take_new(&from, &directory, at),
            Some(_) if !over => return Err(exist(&[piece.name.as_str()])),
            Some(there) if !is_file(there) => return Err(opened::changed(said)),
            Some(there) => {
                parted.other_names = other_names(there);
                parted.not_kept = self.liken(&from, &directory, &name, stop)?;
                self.replace(&from, &directory, at)
            }
        };
        let replaced = replaced.map_err(|errno| match errno {
            Errno::EEXIST => exist(&[piece.name.as_str()]),
            errno => self.failed(errno),
        })?;
        self.taken.push(Taken { directory, name, stat: staged, replaced, number });
        Ok(parted)
    }

    fn directory_for(&mut self, names: Vec<Vec<u8>>) -> Result<Arc<OwnedFd>, FileError> {
        if let Some(directory) = self.directories.get(&names) {
            return Ok(Arc::clone(directory));
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let top = open_beneath(self.target, b".", flags, Mode::empty());
        let top = top.map_err(|errno| self.failed(errno))?;
        let directory =
            Arc::new(self.made.make(top, &names, self.lasting, self.said.as_bytes())?);
        self.directories.insert(names, Arc::clone(&directory));
        Ok(directory)
    }

    fn take_new(&self, from: &str, directory: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&self.directory, from, directory, name, flags) {
            // Not every file system can; a link is never put over anything either.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                linkat(&self.directory, from, directory, name, AtFlags::empty())
                    .and_then(|()| unlinkat(&self.directory, from, UnlinkatFlags::NoRemoveDir))
            }
            other => other,
        }
        .map(|()| false)
    }

    /// With what belongs to what is there.
    fn liken(
        &self,
        from: &str,
        directory: &OwnedFd,
        name: &[u8],
        stop: &Stop,
    ) -> Result<Vec<String>, FileError> {
        let failed = |errno| self.failed(errno);
        let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let file = open_beneath(self.directory.as_fd(), from.as_bytes(), flags, Mode::empty());
        let file = File::from(file.map_err(failed)?);
        let there = look(directory.as_fd(), name).map_err(failed)?;
        let there = there.ok_or_else(|| opened::changed(self.said.as_bytes()))?;
        let stat = fstat(&there).map_err(failed)?;
        liken(
            &file,
            Like { stat: &stat, open: there.as_fd(), file: None },
            self.said.as_bytes(),
            stop,
        )
    }

    fn replace(&self, from: &str, directory: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
        let stage = &self.directory;
        match renameat2(stage, from, directory, name, RenameFlags::RENAME_EXCHANGE) {
            // Not every file system can: for a moment nothing has the name.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                let aside = format!("{from}{ASIDE}");
                // What cannot be given back stays there: it is the only one.
                let back = |errno| {
                    renameat(stage, aside.as_str(), directory, name).unwrap_or_default();
                    errno
                };
                renameat(directory, name, stage, aside.as_str())?;
                renameat(stage, from, directory, name).map_err(back)?;
                renameat(stage, aside.as_str(), stage, from).map_err(back)
            }
            other => other,
        }
        .map(|()| true)
    }

    /// Gives a name back.
    fn untake(&self, taken: &Taken) {
        let name = OsStr::from_bytes(&taken.name);
        let now = fstatat(&taken.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        // What somebody else has put there since stays.
        if !now.is_ok_and(|now| same(&now, &taken.stat)) {
            return;
        }
        if taken.replaced {
            let old = taken.number.to_string();
            renameat(&self.directory, old.as_str(), &taken.directory, name).unwrap_or_default();
        } else {
            remove(taken.directory.as_fd(), &taken.name, UnlinkatFlags::NoRemoveDir);
        }
    }

    fn failed(&self, errno: Errno) -> FileError {
        FileError::system(Doing::Writing, self.said.as_bytes(), errno)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        for taken in std::mem::take(&mut self.taken).iter().rev() {
            self.untake(taken);
        }
        for number in 0..self.files {
            let name = number.to_string();
            remove(self.directory.as_fd(), name.as_bytes(), UnlinkatFlags::NoRemoveDir);
        }
        remove(self.target, self.name.as_bytes(), UnlinkatFlags::RemoveDir);
    }
}

fn is_file(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

/// A new directory that nobody else reads, under a name that nothing has.
fn hidden(target: BorrowedFd<'_>) -> Result<(String, OwnedFd), Errno> {
    let mut tries = 0;
    loop {
        let name = format!(".tool-{:016x}.tmp", RandomState::new().hash_one(tries));
        match mkdirat(target, name.as_str(), Mode::S_IRWXU) {
            Err(Errno::EEXIST) if tries < 16 => tries += 1,
            Err(errno) => return Err(errno),
            Ok(()) => {
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
                let open = open_straight(target, name.as_bytes(), flags);
                if open.is_err() {
                    remove(target, name.as_bytes(), UnlinkatFlags::RemoveDir);
                }
                return open.map(|open| (name, open));
            }
        }
    }
}
