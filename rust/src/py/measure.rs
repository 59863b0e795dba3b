//! For tests and benchmarks only: the fill that gives the limit of writing a result, and NumPy's bounded integers.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::args::threads_arg;
use super::arrays::OutArray;
use super::gil::released;
use super::layout::frozen_array;
use crate::layout::draw::numpy_rng::NumpyRng;
use crate::support::fill;

/// Longest array that `numpy_integers` draws; it is there to be compared with NumPy.
const MAX_DRAWS: usize = 1 << 20;

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
    let shape = array.shape().to_vec();
    let first = array.take(&shape, &[])?;
    let len = shape.iter().product::<usize>() * array.width;
    if len == 0 {
        return Ok(());
    }
    // SAFETY: checked to be `len` writeable, contiguous bytes, kept alive by `out`; writing an array that other threads
    // read or write at the same time is the caller's race, as with every NumPy function that takes `out`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(first, len) };
    released(py, || {
        fill::fill(bytes, temporal, threads);
        Ok(())
    })
}

/// `numpy.random.default_rng(entropy).integers(0, high, count)` as int64, drawn with 64- or 32-bit words.
#[pyfunction]
#[pyo3(signature = (entropy, high, count, word_bits=64))]
fn numpy_integers(
    py: Python<'_>,
    entropy: u128,
    high: u64,
    count: usize,
    word_bits: u32,
) -> PyResult<Bound<'_, PyAny>> {
    let largest = if word_bits == 32 { 1 << 31 } else { 1 << 63 };
    if !matches!(word_bits, 32 | 64) || high == 0 || high > largest || count > MAX_DRAWS {
        let asked = format!("word_bits {word_bits}, high {high}, count {count}");
        return Err(PyValueError::new_err(format!("{asked}: expected 32 or 64, 1..={largest}, 0..={MAX_DRAWS}")));
    }
    let mut rng = NumpyRng::new(entropy);
    let mut draw = || if word_bits == 32 { rng.integer_i32(high as u32).into() } else { rng.integer_i64(high) as i64 };
    frozen_array(py, &(0..count).map(|_| draw()).collect::<Vec<i64>>(), None)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(numpy_integers, module)?)?;
    module.add_function(wrap_pyfunction!(fill_bytes, module)?)
}
