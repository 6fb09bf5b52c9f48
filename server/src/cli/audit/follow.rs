//! Lines as they come, from one file to the next.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::filter::Filter;
use super::{Out, Seen, Stop, unreadable};
use crate::audit::{self, Forward, Piece};

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Goes on behind what was seen; ends when nobody reads any more.
pub(super) fn run(
    directory: &Path,
    seen: Seen,
    filter: &Filter,
    out: &mut Out<'_>,
) -> Result<(), Stop> {
    let unreadable = unreadable(directory);
    let mut reading = match seen {
        Some((mut file, at)) => {
            file.seek(SeekFrom::Start(at)).map_err(&unreadable)?;
            Some(file)
        }
        None => None,
    };
    loop {
        let Some(file) = reading else {
            pause(out)?;
            reading = audit::next(directory, None).map_err(&unreadable)?;
            continue;
        };
        let identity = audit::identity(&file).map_err(&unreadable)?;
        let mut lines = Forward::new(file);
        let mut complete = false;
        reading = loop {
            while let (Piece::Line, line) = lines.next().map_err(&unreadable)? {
                if filter.takes(line) {
                    out.line(line)?;
                }
            }
            // It was read to its end after it had got its other name.
            if complete
                && let Some(next) = audit::next(directory, Some(identity)).map_err(&unreadable)?
            {
                break Some(next);
            }
            complete = !is_current(directory, identity).map_err(&unreadable)?;
            if !complete {
                pause(out)?;
            }
        };
    }
}

/// Whether it is still the file that is written.
fn is_current(directory: &Path, identity: (u64, u64)) -> io::Result<bool> {
    match fs::metadata(directory.join("audit.jsonl")) {
        Ok(found) => Ok((found.dev(), found.ino()) == identity),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn pause(out: &mut Out<'_>) -> Result<(), Stop> {
    out.flush()?;
    // Nobody unparks this thread.
    std::thread::park_timeout(PAUSE);
    Ok(())
}
