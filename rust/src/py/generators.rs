//! The generators that the presets draw their numbers from: NumPy's stream, SplitMix64, primes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::layout::frozen_array;
use crate::layout::numpy_rng::{self, NumpyRng};
use crate::layout::{primes, splitmix};

/// Longest array that `numpy_integers` draws; it is there to be compared with NumPy.
const MAX_DRAWS: usize = 1 << 20;

/// Odd multipliers as the published models draw them from NumPy's generator.
#[pyfunction]
#[pyo3(signature = (compressed_size, n, layer_id, seed, word_bits=64))]
fn multipliers(
    py: Python<'_>,
    compressed_size: u64,
    n: usize,
    layer_id: u64,
    seed: u64,
    word_bits: u32,
) -> PyResult<Bound<'_, PyAny>> {
    frozen_array(py, &numpy_rng::multipliers(compressed_size, n, layer_id, seed, word_bits)?, None)
}

/// Odd multipliers as Qwen's per-layer embedding draws them.
#[pyfunction]
fn splitmix_multipliers(
    py: Python<'_>,
    vocab_size: u64,
    n: usize,
    index: u64,
    seed: u64,
) -> PyResult<Bound<'_, PyAny>> {
    frozen_array(py, &splitmix::multipliers(vocab_size, n, index, seed)?, None)
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

/// Whether `n` is prime.
#[pyfunction]
fn is_prime(n: u64) -> bool {
    primes::is_prime(n)
}

/// The `count` smallest primes above `above`.
#[pyfunction]
fn primes_above(py: Python<'_>, above: u64, count: usize) -> PyResult<Bound<'_, PyAny>> {
    frozen_array(py, &py.detach(|| primes::primes_above(above, count))?, None)
}

/// `[layers, len(sizes) * heads]`: primes from each size on that no earlier column has taken.
#[pyfunction]
fn unused_primes(py: Python<'_>, sizes: Vec<u64>, heads: usize, layers: usize) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(|| primes::unused_primes(&sizes, heads, layers))?;
    frozen_array(py, &found.concat(), Some(layers))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(multipliers, module)?)?;
    module.add_function(wrap_pyfunction!(splitmix_multipliers, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_integers, module)?)?;
    module.add_function(wrap_pyfunction!(is_prime, module)?)?;
    module.add_function(wrap_pyfunction!(primes_above, module)?)?;
    module.add_function(wrap_pyfunction!(unused_primes, module)?)
}
