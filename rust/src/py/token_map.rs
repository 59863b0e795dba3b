//! `TokenMap` for Python: arguments in, one core call without the GIL, arrays out.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::ndarray::ArrayView1;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::args::count;
use super::arrays::{IntArray, allocate};
use super::gil::released;
use crate::support::pool::default_threads;
use crate::token_map::{MAX_IDS, Metadata, Rule, TokenMap, normalize_key};

/// Raw token id to compressed id.
#[pyclass(frozen, subclass, name = "TokenMap", module = "engram_fast._core")]
pub struct PyTokenMap {
    /// Shared with every hasher that uses it.
    pub map: Arc<TokenMap>,
}

impl From<TokenMap> for PyTokenMap {
    fn from(map: TokenMap) -> Self {
        Self { map: Arc::new(map) }
    }
}

#[pymethods]
impl PyTokenMap {
    /// The same map as an object of this class; the memory is shared.
    #[new]
    #[pyo3(signature = (source, /))]
    fn new(source: &Bound<'_, Self>) -> Self {
        Self { map: Arc::clone(&source.get().map) }
    }

    /// The map of a `tokenizer.json`, or of the one in a folder.
    #[staticmethod]
    #[pyo3(signature = (path, vocab_size = None))]
    fn from_file(py: Python<'_>, path: PathBuf, vocab_size: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let vocab_size = vocab_size.map(|value| count(value, "vocab_size")).transpose()?;
        released(py, || TokenMap::from_file(&path, vocab_size, default_threads())).map(Self::from)
    }

    /// The map of a tokenizer by the bytes of its `tokenizer.json`.
    #[staticmethod]
    #[pyo3(signature = (json, vocab_size = None))]
    fn from_json(py: Python<'_>, json: &[u8], vocab_size: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let vocab_size = vocab_size.map(|value| count(value, "vocab_size")).transpose()?;
        released(py, || TokenMap::from_json(json, vocab_size, default_threads())).map(Self::from)
    }

    /// The map of decoded texts and raw pieces, None for a hole; `source` goes into the metadata.
    #[staticmethod]
    #[pyo3(signature = (texts, pieces, source = "pieces"))]
    fn build(py: Python<'_>, texts: Vec<Option<String>>, pieces: Vec<Option<String>>, source: &str) -> PyResult<Self> {
        released(py, || TokenMap::from_pieces(&texts, &pieces, source, default_threads())).map(Self::from)
    }

    #[staticmethod]
    fn identity(py: Python<'_>, n: &Bound<'_, PyAny>) -> PyResult<Self> {
        let n = count(n, "n")?;
        released(py, || TokenMap::identity(n)).map(Self::from)
    }

    /// The map that a one-dimensional array of compressed ids holds; the other arguments go into the metadata.
    #[staticmethod]
    #[pyo3(signature = (lookup, holes = None, rule = "none", source = "lookup"))]
    fn from_numbers(lookup: &Bound<'_, PyAny>, holes: Option<Vec<i32>>, rule: &str, source: &str) -> PyResult<Self> {
        let py = lookup.py();
        let lookup = IntArray::flat(lookup, "lookup")?;
        if lookup.shape()[0] > MAX_IDS {
            let reason = format!("{} ids are more than {MAX_IDS}", lookup.shape()[0]);
            return Err(crate::Error::token_map("lookup", reason).into());
        }
        let lookup = lookup.to_vec("lookup")?;
        let rule =
            Rule::from_name(rule).ok_or_else(|| crate::Error::token_map("rule", format!("{rule:?} is unknown")))?;
        let metadata = Metadata::new(rule, source, None);
        let holes = holes.unwrap_or_default();
        released(py, || TokenMap::from_numbers(&lookup, holes, metadata)).map(Self::from)
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        released(py, || TokenMap::load(&path)).map(Self::from)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        released(py, || self.map.save(&path))
    }

    /// The map in the bytes of a file that `save` wrote, all of it checked.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        released(py, || TokenMap::from_bytes(data)).map(Self::from)
    }

    /// The bytes that `save` writes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &released(py, || Ok(self.map.to_bytes()))?))
    }

    /// The compressed id of every raw id: read-only int32 [len], a view and no copy.
    #[getter]
    fn lookup<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let view = ArrayView1::from(this.get().map.lookup());
        // SAFETY: the array's base is `this`, a frozen object that keeps the map alive and never changes it.
        let array = unsafe { PyArray1::borrow_from_array(&view, this.clone().into_any()) };
        // Nobody can undo this: the base offers no writeable buffer.
        array.call_method1(intern!(this.py(), "setflags"), (false,))?;
        Ok(array)
    }

    /// Number of compressed ids: the largest plus one.
    #[getter]
    fn size(&self) -> usize {
        self.map.size()
    }

    /// Raw ids that the tokenizer does not know, ascending, a new list; they share one compressed id.
    #[getter]
    fn holes(&self) -> &[i32] {
        self.map.holes()
    }

    /// sha256 (hex) of the length and of `lookup` as little-endian int32: content alone.
    #[getter]
    fn digest(&self) -> &str {
        self.map.digest()
    }

    /// Where the map comes from, {name: text}, a new dict: rule, source, versions. Not part of what makes maps equal.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.map.metadata().pairs() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn compress<'py>(&self, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<i32>>> {
        let py = ids.py();
        let ids = IntArray::of_any_shape(ids, "ids")?;
        let (view, shape) = (ids.view(), ids.shape());
        let result = allocate(py, shape, 4, true)?.cast_into::<PyArrayDyn<i32>>()?;
        ids.check_unchanged("ids")?;
        // SAFETY: the array was made just now; nobody else knows it.
        let out = unsafe { result.as_slice_mut()? };
        released(py, || self.map.compress_into(&view, shape, out))?;
        Ok(result)
    }

    fn __len__(&self) -> usize {
        self.map.len()
    }

    fn __eq__(&self, other: &Bound<'_, Self>) -> bool {
        self.map == other.get().map
    }

    fn __hash__(&self) -> u64 {
        u64::from_str_radix(&self.map.digest()[..16], 16).expect("a digest is hexadecimal")
    }

    fn __repr__(&self) -> String {
        let map = &self.map;
        format!(
            "TokenMap({} ids -> {} compressed, {} holes, digest {}...)",
            map.len(),
            map.size(),
            map.holes().len(),
            &map.digest()[..12]
        )
    }
}

/// The key of a text: what the normalizers make of it.
#[pyfunction]
#[pyo3(signature = (text, /))]
fn normalize(text: &str) -> String {
    normalize_key(text)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MAX_IDS", MAX_IDS)?;
    module.add_class::<PyTokenMap>()?;
    module.add_function(wrap_pyfunction!(normalize, module)?)
}
