//! Bindings for CPython: arrays in and out, classes, error conversion; nothing else in the crate names pyo3 or numpy.

mod args;
mod arrays;
mod call;
mod errors;
mod files;
mod generators;
mod gil;
mod handle;
mod hasher;
mod layout;
#[cfg(feature = "measure")]
mod measure;
mod places;
mod state;
mod token_map;

use pyo3::prelude::*;

/// The extension module `engram_fast._core`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::support::pool::prepare_for_fork();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    files::register(module)?;
    token_map::register(module)?;
    layout::register(module)?;
    generators::register(module)?;
    #[cfg(feature = "measure")]
    measure::register(module)?;
    hasher::register(module)
}
