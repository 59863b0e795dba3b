//! Writing files in one step, for the formats that Python writes itself.

use std::path::PathBuf;

use pyo3::prelude::*;

use super::gil::released;

/// Write bytes to a file in one step: a temporary neighbour, flushed, then renamed.
#[pyfunction]
#[pyo3(signature = (path, data, /))]
fn write_atomically(py: Python<'_>, path: PathBuf, data: &[u8]) -> PyResult<()> {
    released(py, || crate::support::atomic_file::write_atomically(&path, data))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(write_atomically, module)?)
}
