//! Bindings for CPython: arrays in and out, classes, error conversion; nothing else in the crate names pyo3 or numpy.

mod errors;
mod layout;

use pyo3::prelude::*;

/// The extension module `engram_fast._core`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    layout::register(module)
}
