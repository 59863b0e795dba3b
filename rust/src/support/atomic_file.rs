//! Writing a file in one step: a temporary neighbour with a name of its own, flushed, then renamed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::{Error, Result};

/// Writes `bytes` to `path`. Whoever reads sees the old file or the new one, never a part; several writers do not
/// disturb each other; an error leaves nothing behind.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The crate hides the number of the system's error behind its own text; this keeps it.
    let refused = Cell::new(None);
    let create = |path: &Path| {
        // The mode of an ordinary file, less the umask: a temporary file's own could be read by its owner only.
        let opened = File::options().write(true).create_new(true).open(path);
        refused.set(opened.as_ref().err().and_then(io::Error::raw_os_error));
        opened
    };
    let made = tempfile::Builder::new().prefix(".engram-fast-").suffix(".tmp").make_in(folder, create);
    let mut file = made.map_err(|error| io(refused.get().map_or(error, io::Error::from_raw_os_error)))?;
    file.write_all(bytes).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    // The rename itself reaches the disk with the folder; some file systems refuse to flush one, which is no error.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}
