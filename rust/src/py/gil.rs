//! The one place where the interpreter is let go while the core works.

use pyo3::marker::Ungil;
use pyo3::prelude::*;

/// The result of `work`, which touches no Python object, with the interpreter free for other threads.
pub fn released<R: Send>(py: Python<'_>, work: impl FnOnce() -> crate::Result<R> + Ungil) -> PyResult<R> {
    released_if(py, true, work)
}

/// The same where it `pays`: letting go and coming back costs about as much as hashing ten tokens.
pub fn released_if<R: Send>(
    py: Python<'_>,
    pays: bool,
    work: impl FnOnce() -> crate::Result<R> + Ungil,
) -> PyResult<R> {
    Ok(if pays { py.detach(work) } else { work() }?)
}
