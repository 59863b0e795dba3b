//! The generators that the presets draw their numbers from: NumPy's stream, SplitMix64, primes.

use pyo3::prelude::*;

use super::layout::frozen_array;
use crate::layout::draw::{numpy_rng, primes, splitmix};

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
    module.add_function(wrap_pyfunction!(is_prime, module)?)?;
    module.add_function(wrap_pyfunction!(primes_above, module)?)?;
    module.add_function(wrap_pyfunction!(unused_primes, module)?)
}
