//! The one place where the interpreter is let go while the core works.

use pyo3::Python;
use pyo3::marker::Ungil;

/// Runs `work`, which touches no Python object, with the interpreter free for other threads if it `pays`: letting go
/// and coming back costs about as much as a few hundred rows.
pub fn detached_if<T: Ungil>(py: Python, pays: bool, work: impl FnOnce() -> T + Ungil) -> T {
    if pays { py.detach(work) } else { work() }
}
/// The result of `f`, which runs without the GIL.
pub fn released<R, F>(py: pyo3::Python<'_>, f: F) -> pyo3::PyResult<R>
where
    R: Send,
    F: Send + FnOnce() -> crate::Result<R>,
{
    py.detach(f).map_err(pyo3::PyErr::from)
}
