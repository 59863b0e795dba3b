//! Running core code with the GIL released; every call that takes more than microseconds goes through here.

use pyo3::prelude::*;

/// The result of `f`, which runs without the GIL.
pub fn released<R, F>(py: Python<'_>, f: F) -> PyResult<R>
where
    R: Send,
    F: Send + FnOnce() -> crate::Result<R>,
{
    py.detach(f).map_err(PyErr::from)
}
