//! Bindings for CPython: the extension module `engram_fast._core`.

mod errors;
mod files;
mod gil;
mod ids;
mod token_map;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    files::register(module)?;
    token_map::register(module)
}
