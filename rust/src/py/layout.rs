//! `_core.Layout` and the generators that the presets draw their numbers from.

use std::sync::Arc;

use numpy::get_array_module;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMappingProxy, PyString, PyTuple, PyType};

use crate::layout::numpy_rng::{self, NumpyRng};
use crate::layout::{Align, Columns, HashLayout, Layer, Mix, Multipliers, Outside, primes, splitmix};

/// Longest array that `numpy_integers` draws; it is there to be compared with NumPy.
const MAX_DRAWS: usize = 1 << 20;

/// An int64 array over immutable bytes: unlike a flag on an array that owns its memory, that cannot be lifted again.
fn frozen_array<'py>(py: Python<'py>, values: &[i64], rows: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let array = get_array_module(py)?.call_method1("frombuffer", (PyBytes::new(py, &bytes), "int64"))?;
    match rows {
        Some(rows) => array.call_method1("reshape", (rows, values.len() / rows.max(1))),
        None => Ok(array),
    }
}

type View = PyOnceLock<Py<PyMappingProxy>>;

/// The numbers of one model, checked and frozen.
#[pyclass(name = "Layout", module = "engram_fast._core", frozen, subclass)]
pub struct PyLayout {
    pub(crate) inner: Arc<HashLayout>,
    digest: String,
    multipliers: View,
    moduli: View,
    offsets: View,
    rows: View,
}

impl PyLayout {
    /// {layer_id: value} in the layout's order, made once.
    fn view<'py>(
        &self,
        py: Python<'py>,
        cell: &View,
        value: impl Fn(&Layer) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyMappingProxy>> {
        let proxy = cell.get_or_try_init(py, || {
            let dict = PyDict::new(py);
            for layer in &self.inner.layers {
                dict.set_item(layer.layer_id, value(layer)?)?;
            }
            Ok::<_, PyErr>(PyMappingProxy::new(py, dict.as_mapping()).unbind())
        })?;
        Ok(proxy.clone_ref(py))
    }
}

#[pymethods]
impl PyLayout {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let (inner, digest) = py.detach(|| {
            let inner = HashLayout::from_json(text)?;
            let digest = inner.digest();
            Ok::<_, crate::Error>((Arc::new(inner), digest))
        })?;
        let view = PyOnceLock::new;
        Ok(Self { inner, digest, multipliers: view(), moduli: view(), offsets: view(), rows: view() })
    }

    #[classmethod]
    fn from_json<'py>(cls: &Bound<'py, PyType>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        cls.call1((text,))
    }

    fn to_json(&self) -> String {
        self.inner.to_json()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.inner.parameters.to_string(),))
    }

    #[getter]
    fn digest(&self) -> &str {
        &self.digest
    }

    #[getter]
    fn layer_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.layers.iter().map(|layer| layer.layer_id).collect::<Vec<_>>())
    }

    #[getter]
    fn orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.orders)
    }

    #[getter]
    fn heads(&self) -> usize {
        self.inner.heads
    }

    #[getter]
    fn columns(&self) -> usize {
        self.inner.columns()
    }

    #[getter]
    fn column_orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.column_orders())
    }

    #[getter]
    fn column_numbering(&self) -> &'static str {
        match self.inner.columns {
            Columns::OrderMajor => "order-major",
            Columns::FunctionMajor => "function-major",
        }
    }

    #[getter]
    fn max_order(&self) -> usize {
        self.inner.max_order
    }

    #[getter]
    fn mix(&self) -> &'static str {
        match self.inner.mix {
            Mix::Xor => "xor",
            Mix::Sum => "sum",
        }
    }

    #[getter]
    fn word_bits(&self) -> u32 {
        self.inner.word_bits
    }

    #[getter]
    fn align(&self) -> &'static str {
        match self.inner.align {
            Align::Newest => "newest",
            Align::Oldest => "oldest",
        }
    }

    #[getter]
    fn fill(&self) -> i64 {
        self.inner.fill
    }

    #[getter]
    fn boundary_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.boundary_ids)
    }

    #[getter]
    fn id_limit(&self) -> Option<i64> {
        self.inner.ids.limit
    }

    #[getter]
    fn negative_ids(&self) -> &'static str {
        outside(self.inner.ids.negative)
    }

    #[getter]
    fn too_large_ids(&self) -> &'static str {
        outside(self.inner.ids.too_large)
    }

    #[getter]
    fn token_map_digest(&self) -> Option<&str> {
        self.inner.token_map.as_ref().map(|map| map.digest.as_str())
    }

    #[getter]
    fn token_map_length(&self) -> Option<usize> {
        self.inner.token_map.as_ref().map(|map| map.length)
    }

    #[getter]
    fn token_map_size(&self) -> Option<usize> {
        self.inner.token_map.as_ref().map(|map| map.size)
    }

    #[getter]
    fn adds_offsets(&self) -> bool {
        self.inner.adds_offsets
    }

    #[getter]
    fn multipliers(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.multipliers, |layer| match &layer.multipliers {
            Multipliers::Shared(multipliers) => frozen_array(py, multipliers, None),
            Multipliers::PerColumn(rows) => frozen_array(py, &rows.concat(), Some(rows.len())),
        })
    }

    #[getter]
    fn moduli(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.moduli, |layer| frozen_array(py, &layer.moduli, None))
    }

    #[getter]
    fn offsets(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.offsets, |layer| frozen_array(py, &layer.offsets, None))
    }

    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.rows, |layer| Ok(layer.rows.into_pyobject(py)?.into_any()))
    }

    fn max_row(&self, add_offsets: bool) -> i64 {
        self.inner.max_row(add_offsets)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyLayout>() else { return Ok(py.NotImplemented()) };
        let equal = self.digest == other.get().digest;
        match op {
            CompareOp::Eq => Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind()),
            CompareOp::Ne => Ok((!equal).into_pyobject(py)?.to_owned().into_any().unbind()),
            _ => Ok(py.NotImplemented()),
        }
    }

    fn __hash__(&self) -> u64 {
        self.digest.bytes().take(15).fold(0, |hash, digit| (hash << 4) | u64::from(digit & 0xf))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().to_json(),))
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let layout = &slf.get().inner;
        let layers: Vec<i64> = layout.layers.iter().map(|layer| layer.layer_id).collect();
        let short = &slf.get().digest[..12];
        let class = slf.get_type().name()?;
        let (name, orders, heads) = (&layout.name, &layout.orders, layout.heads);
        Ok(format!("<{class} {name:?}: layers {layers:?}, orders {orders:?}, heads {heads}, digest {short}>"))
    }
}

fn outside(rule: Outside) -> &'static str {
    match rule {
        Outside::Error => "error",
        Outside::Enter => "enter",
    }
}

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

/// Adds this file's names to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyLayout>()?;
    module.add_function(wrap_pyfunction!(multipliers, module)?)?;
    module.add_function(wrap_pyfunction!(splitmix_multipliers, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_integers, module)?)?;
    module.add_function(wrap_pyfunction!(is_prime, module)?)?;
    module.add_function(wrap_pyfunction!(primes_above, module)?)?;
    module.add_function(wrap_pyfunction!(unused_primes, module)?)
}
