//! Writing a file in one step: a temporary neighbour with a name of its own, flushed, then renamed.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Writes `bytes` to `path`. A reader sees the old file or the new one, never a part; several writers do not disturb
/// each other; an error leaves nothing behind. A link at `path` stays, and the file that it leads to is replaced; a
/// replaced file keeps its mode.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let target = behind_links(path).map_err(io)?;
    let replaced = fs::metadata(&target).ok().filter(fs::Metadata::is_file);
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The crate hides the number of the system's error behind its own text; this keeps it.
    let refused = Cell::new(None);
    let create = |path: &Path| {
        // A new file gets the mode of an ordinary one, less the umask: the crate's default lets nobody but the owner
        // read it. A file that replaces another has that file's mode from the start, so that it is never more open.
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(old) = &replaced {
            use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
            options.mode(old.mode() & 0o777);
        }
        let opened = options.open(path);
        refused.set(opened.as_ref().err().and_then(io::Error::raw_os_error));
        opened
    };
    let made = tempfile::Builder::new().prefix(".engram-fast-").suffix(".tmp").make_in(folder, create);
    let mut file = made.map_err(|error| io(refused.get().map_or(error, io::Error::from_raw_os_error)))?;
    // The umask took bits away when the file was opened.
    #[cfg(unix)]
    if let Some(old) = &replaced {
        file.as_file().set_permissions(old.permissions()).map_err(io)?;
    }
    file.write_all(bytes).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(&target).map_err(|error| io(error.error))?;
    // The rename itself reaches the disk with the folder; some file systems refuse to flush one, which is no error.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The path that the links at `path` lead to, whether or not a file is there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !fs::symlink_metadata(&target).is_ok_and(|found| found.file_type().is_symlink()) {
            return Ok(target);
        }
        let link = fs::read_link(&target)?;
        target.pop();
        target.push(link); // an absolute link takes the place of the folder
    }
    Err(fs::metadata(path).err().unwrap_or_else(|| io::Error::other("too many links")))
}
