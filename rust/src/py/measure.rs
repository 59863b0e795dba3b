//! For benchmarks only: the fill that gives the limit of writing a result.

use pyo3::prelude::*;

use super::args::threads_arg;
use super::arrays::OutArray;
use super::gil::released;
use crate::fill;

/// Write the byte 0xA5 all over `out`, a C-contiguous, writeable array of int32 or int64: the time that any code takes at
/// least that fills such an array. `temporal` says whether the bytes shall stay in the caches; `num_threads` is 1 where
/// it is None.
#[pyfunction]
#[pyo3(signature = (out, temporal, num_threads=None))]
fn fill_bytes(
    py: Python<'_>,
    out: &Bound<'_, PyAny>,
    temporal: bool,
    num_threads: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let threads = threads_arg(num_threads)?.unwrap_or(1);
    let array = OutArray::new(out)?;
    let shape: Vec<usize> = out.getattr("shape")?.extract()?;
    array.check(&shape, &[])?;
    let len = shape.iter().product::<usize>() * array.width;
    if len == 0 {
        return Ok(());
    }
    // SAFETY: checked to be `len` writeable, contiguous bytes, kept alive by `out`; writing an array that other threads
    // read or write at the same time is the caller's race, as with every NumPy function that takes `out`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(array.data(), len) };
    released(py, || {
        fill::fill(bytes, temporal, threads);
        Ok(())
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fill_bytes, module)?)
}
