//! `_core.Layout`: the numbers of one model as Python reads them.

use std::sync::Arc;

use numpy::get_array_module;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMappingProxy, PyString, PyTuple, PyType};

use crate::layout::{Align, Columns, HashLayout, Layer, MAX_COLUMNS, MAX_ORDER, Mix, Multipliers, Outside};

/// An int64 array over immutable bytes: unlike a flag on an array that owns its memory, that cannot be lifted again.
pub fn frozen_array<'py>(py: Python<'py>, values: &[i64], rows: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
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

    /// The layout that `to_json` wrote; every number is checked. ValueError names the field that is wrong.
    #[classmethod]
    fn from_json<'py>(cls: &Bound<'py, PyType>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        cls.call1((text,))
    }

    /// All numbers as JSON text, complete: reading it needs neither a tokenizer nor a random generator.
    fn to_json(&self) -> String {
        self.inner.to_json()
    }

    /// The preset's name; not part of what makes layouts equal.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The published parameters the layout was made from, a new dict; not part of what makes layouts equal.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.inner.parameters.to_string(),))
    }

    /// sha256 (hex) of the numbers and of the token map's digest: equal for equal numbers, wherever they come from.
    #[getter]
    fn digest(&self) -> &str {
        &self.digest
    }

    /// Layers, in the order in which results are given.
    #[getter]
    fn layer_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.layers.iter().map(|layer| layer.layer_id).collect::<Vec<_>>())
    }

    /// n-gram orders, ascending.
    #[getter]
    fn orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.orders)
    }

    /// Heads (hash functions) per order.
    #[getter]
    fn heads(&self) -> usize {
        self.inner.heads
    }

    /// C: columns of every layer, orders times heads.
    #[getter]
    fn columns(&self) -> usize {
        self.inner.columns()
    }

    /// The n-gram order of each column.
    #[getter]
    fn column_orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.column_orders())
    }

    /// "order-major" (column = order index * heads + head) or "function-major" (head * orders + order index).
    #[getter]
    fn column_numbering(&self) -> &'static str {
        match self.inner.columns {
            Columns::OrderMajor => "order-major",
            Columns::FunctionMajor => "function-major",
        }
    }

    /// N: tokens in the window.
    #[getter]
    fn max_order(&self) -> usize {
        self.inner.max_order
    }

    /// "xor" or "sum" of the products.
    #[getter]
    fn mix(&self) -> &'static str {
        match self.inner.mix {
            Mix::Xor => "xor",
            Mix::Sum => "sum",
        }
    }

    /// 64 or 32: the width at which products and mix wrap.
    #[getter]
    fn word_bits(&self) -> u32 {
        self.inner.word_bits
    }

    /// Which token multiplier 0 pairs with: "newest" (the current one) or "oldest" (the one N - 1 back).
    #[getter]
    fn align(&self) -> &'static str {
        match self.inner.align {
            Align::Newest => "newest",
            Align::Oldest => "oldest",
        }
    }

    /// What a look-back reads that cannot be reached; a compressed id where the layout has a token map.
    #[getter]
    fn fill(&self) -> i64 {
        self.inner.fill
    }

    /// Raw ids after which the look-back stops.
    #[getter]
    fn boundary_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.boundary_ids)
    }

    /// Number of raw ids; None where any id enters.
    #[getter]
    fn id_limit(&self) -> Option<i64> {
        self.inner.ids.limit
    }

    /// "error" (IndexError) or "enter": negative ids enter the products unmapped.
    #[getter]
    fn negative_ids(&self) -> &'static str {
        outside(self.inner.ids.negative)
    }

    /// The same for ids at or past `id_limit`.
    #[getter]
    fn too_large_ids(&self) -> &'static str {
        outside(self.inner.ids.too_large)
    }

    /// `digest` of the token map the layout was made for; None where raw ids are hashed.
    #[getter]
    fn token_map_digest(&self) -> Option<&str> {
        self.inner.token_map.as_ref().map(|map| map.digest.as_str())
    }

    /// Raw ids of that token map, or None.
    #[getter]
    fn token_map_length(&self) -> Option<usize> {
        self.inner.token_map.as_ref().map(|map| map.length)
    }

    /// Compressed ids of that token map, or None.
    #[getter]
    fn token_map_size(&self) -> Option<usize> {
        self.inner.token_map.as_ref().map(|map| map.size)
    }

    /// Whether rows carry their column's offset unless the caller says otherwise.
    #[getter]
    fn adds_offsets(&self) -> bool {
        self.inner.adds_offsets
    }

    /// {layer: read-only int64 [N]}, or [C, N] for polynomial layouts: the coefficient of look-back k in column c.
    #[getter]
    fn multipliers(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.multipliers, |layer| match &layer.multipliers {
            Multipliers::Shared(multipliers) => frozen_array(py, multipliers, None),
            Multipliers::PerColumn(rows) => frozen_array(py, &rows.concat(), Some(rows.len())),
        })
    }

    /// {layer: read-only int64 [C]}.
    #[getter]
    fn moduli(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.moduli, |layer| frozen_array(py, &layer.moduli, None))
    }

    /// {layer: read-only int64 [C]}: where each column's rows begin in a joint table.
    #[getter]
    fn offsets(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.offsets, |layer| frozen_array(py, &layer.offsets, None))
    }

    /// {layer: int}: rows of the joint table, padding included.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<Py<PyMappingProxy>> {
        self.view(py, &self.rows, |layer| Ok(layer.rows.into_pyobject(py)?.into_any()))
    }

    /// The largest row number that any layer and column can give, with or without offsets.
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Presets check their parameters under the caller's names, by the same limits.
    module.add("MAX_ORDER", MAX_ORDER)?;
    module.add("MAX_COLUMNS", MAX_COLUMNS)?;
    module.add_class::<PyLayout>()
}
