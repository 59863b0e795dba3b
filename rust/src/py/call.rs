//! One hashing call from Python: its arguments, checked before anything is written, and its result.

use numpy::{PyArray3, PyArray4, PyArrayDescr, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use super::args::{int_arg, threads_arg};
use super::arrays::{IntArray, OutArray, row_width};
use super::gil::released_if;
use super::hasher::PyHasher;
use crate::hash::driver::{LayerAxis, Request, Strides};
use crate::hash::kernels::Row;
use crate::hash::state::RowState;
use crate::hash::{HashState, Places};
use crate::pool;

/// Rows below this many are hashed before another thread could be woken.
pub const WORTH_RELEASING: usize = 1 << 13;

/// Arguments as they came.
pub struct Arguments<'a, 'py> {
    pub ids: &'a Bound<'py, PyAny>,
    pub out: Option<&'a Bound<'py, PyAny>>,
    pub dtype: Option<&'a Bound<'py, PyAny>>,
    pub layer_axis: Option<&'a Bound<'py, PyAny>>,
    pub layers: Option<&'a Bound<'py, PyAny>>,
    pub add_offsets: Option<&'a Bound<'py, PyAny>>,
    pub mask: Option<&'a Bound<'py, PyAny>>,
    pub segment_ids: Option<&'a Bound<'py, PyAny>>,
    pub cu_seqlens: Option<&'a Bound<'py, PyAny>>,
    pub num_threads: Option<&'a Bound<'py, PyAny>>,
}

/// Where tokens stand: the part of the arguments that states need too.
pub struct WhereArrays<'py> {
    pub ids: IntArray<'py>,
    mask: Option<IntArray<'py>>,
    segment_ids: Option<IntArray<'py>>,
    cu_seqlens: Option<Vec<i64>>,
    pub flat: bool,
}

impl<'py> WhereArrays<'py> {
    /// `batch`: the number of rows that a state wants.
    pub fn new(
        ids: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
        cu_seqlens: Option<&Bound<'py, PyAny>>,
        batch: Option<usize>,
    ) -> PyResult<Self> {
        let ids = IntArray::new(ids, "ids", false)?;
        let flat = match ids.shape().len() {
            1 => true,
            2 => false,
            n => {
                return Err(PyValueError::new_err(format!(
                    "ids: expected [N] or [B, T], got {n} dimensions, shape {:?}",
                    ids.shape()
                )));
            }
        };
        let beside = |array: Option<&Bound<'py, PyAny>>, name: &str, bools: bool| {
            let array = array.map(|array| IntArray::new(array, name, bools)).transpose()?;
            match array {
                Some(array) if array.shape() != ids.shape() => Err(PyValueError::new_err(format!(
                    "{name}: expected the shape of the ids, {:?}, got {:?}",
                    ids.shape(),
                    array.shape()
                ))),
                array => Ok(array),
            }
        };
        let mask = beside(mask, "mask", true)?;
        let segment_ids = beside(segment_ids, "segment_ids", false)?;
        let cu_seqlens = match cu_seqlens {
            None => None,
            Some(_) if !flat => {
                return Err(PyValueError::new_err(format!(
                    "cu_seqlens: is for flat ids [N], got the shape {:?}",
                    ids.shape()
                )));
            }
            Some(starts) => {
                let starts = IntArray::new(starts, "cu_seqlens", false)?;
                if starts.shape().len() != 1 {
                    return Err(PyValueError::new_err(format!(
                        "cu_seqlens: expected one dimension, got the shape {:?}",
                        starts.shape()
                    )));
                }
                Some(starts.to_vec())
            }
        };
        let array = Self { ids, mask, segment_ids, cu_seqlens, flat };
        match batch {
            Some(batch) if array.shape()[0] != batch => Err(PyValueError::new_err(format!(
                "ids: the state has {batch} rows, the ids have the shape {:?}",
                array.ids.shape()
            ))),
            _ => Ok(array),
        }
    }

    /// Rows and columns; flat ids are one row.
    pub fn shape(&self) -> [usize; 2] {
        match *self.ids.shape() {
            [n] => [1, n],
            [b, t] => [b, t],
            _ => unreachable!("the constructor takes one or two dimensions"),
        }
    }

    pub fn places(&self) -> crate::Result<Places<'_>> {
        Places::new(
            self.ids.view(),
            self.mask.as_ref().map(IntArray::view),
            self.segment_ids.as_ref().map(IntArray::view),
            self.cu_seqlens.as_deref(),
        )
    }

    /// How many tokens of each row count: `[B]`, each within 0 and T.
    pub fn accepted(&self, accepted: &Bound<'py, PyAny>) -> PyResult<Vec<usize>> {
        let accepted = IntArray::new(accepted, "accepted", false)?;
        let [rows, cols] = self.shape();
        if accepted.shape() != [rows] {
            return Err(PyValueError::new_err(format!(
                "accepted: expected the shape [{rows}], one count per row, got {:?}",
                accepted.shape()
            )));
        }
        let counts = accepted.to_vec();
        let count = |(row, &count): (usize, &i64)| {
            usize::try_from(count)
                .ok()
                .filter(|&count| count <= cols)
                .ok_or_else(|| PyValueError::new_err(format!("accepted: {count} at row {row} is outside 0..{cols}")))
        };
        counts.iter().enumerate().map(count).collect()
    }

    fn inputs(&self) -> Vec<&IntArray<'py>> {
        [Some(&self.ids), self.mask.as_ref(), self.segment_ids.as_ref()].into_iter().flatten().collect()
    }
}

/// A call whose arguments agree with each other and with the hasher.
pub struct Call<'py> {
    pub place: WhereArrays<'py>,
    out: Option<(Bound<'py, PyAny>, OutArray<'py>)>,
    width: usize,
    axis: LayerAxis,
    layers: Option<Vec<usize>>,
    add_offsets: bool,
    threads: Option<usize>,
}

impl<'py> Call<'py> {
    pub fn new(hasher: &PyHasher, arguments: &Arguments<'_, 'py>, batch: Option<usize>) -> PyResult<Self> {
        let &Arguments { ids, mask, segment_ids, cu_seqlens, .. } = arguments;
        let place = WhereArrays::new(ids, mask, segment_ids, cu_seqlens, batch)?;
        let axis = layer_axis(arguments.layer_axis)?;
        let layers = arguments.layers.map(|layers| layer_indices(hasher, layers)).transpose()?;
        let add_offsets = match arguments.add_offsets {
            None => hasher.inner.layout().adds_offsets,
            Some(flag) => flag
                .extract()
                .map_err(|_| PyTypeError::new_err(format!("add_offsets: expected None, True or False, got {flag}")))?,
        };
        let threads = threads_arg(arguments.num_threads)?;
        let out = arguments.out.map(|out| Ok::<_, PyErr>((out.clone(), OutArray::new(out)?))).transpose()?;
        let asked = arguments.dtype.map(dtype_width).transpose()?;
        let width = match (asked, &out) {
            (Some(width), Some((_, out))) if width != out.width => {
                return Err(PyTypeError::new_err(format!(
                    "dtype: int{} differs from out's int{}",
                    width * 8,
                    out.width * 8
                )));
            }
            (Some(width), _) => width,
            (None, Some((_, out))) => out.width,
            (None, None) if hasher.fits_int32(add_offsets) => 4,
            (None, None) => 8,
        };
        if width == 4 && !hasher.fits_int32(add_offsets) {
            let name = if asked.is_some() { "dtype" } else { "out" };
            return Err(PyValueError::new_err(format!(
                "{name}: int32 cannot hold row {} of the layout {}; ask for int64",
                hasher.inner.layout().max_row(add_offsets),
                hasher.inner.layout().name
            )));
        }
        let call = Self { place, out, width, axis, layers, add_offsets, threads };
        if let Some((_, out)) = &call.out {
            let (shape, dimensions) = call.shape(hasher);
            out.check(&shape[..dimensions], &call.place.inputs())?;
        }
        Ok(call)
    }

    fn layers<'a>(&'a self, hasher: &'a PyHasher) -> &'a [usize] {
        self.layers.as_deref().unwrap_or(&hasher.all_layers)
    }

    /// Of the result, and how many of the four numbers count.
    fn shape(&self, hasher: &PyHasher) -> ([usize; 4], usize) {
        let [b, t] = self.place.shape();
        let (l, c) = (self.layers(hasher).len(), hasher.inner.layout().columns());
        match (self.place.flat, self.axis) {
            (false, LayerAxis::First) => ([l, b, t, c], 4),
            (false, LayerAxis::AfterBatch) => ([b, l, t, c], 4),
            (false, LayerAxis::BeforeColumns) => ([b, t, l, c], 4),
            (true, LayerAxis::First) => ([l, t, c, 0], 3),
            (true, _) => ([t, l, c, 0], 3),
        }
    }

    /// Hashes after `state`, where there is one. The result is `out` itself or a new array.
    pub fn hash(&self, py: Python<'py>, hasher: &PyHasher, state: Option<&HashState>) -> PyResult<Bound<'py, PyAny>> {
        let states = state.map(|state| &state.rows[..]);
        let (shape, dimensions) = self.shape(hasher);
        if let Some((object, out)) = &self.out {
            match self.width {
                4 => self.run(py, hasher, states, out.data().cast::<i32>())?,
                _ => self.run(py, hasher, states, out.data().cast::<i64>())?,
            }
            return Ok(object.clone());
        }
        let elements = shape[..dimensions].iter().try_fold(self.width, |bytes, &n| bytes.checked_mul(n));
        if elements.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(PyValueError::new_err(format!(
                "ids: the result would have the shape {:?}",
                &shape[..dimensions]
            )));
        }
        macro_rules! fresh {
            ($array:ident, $shape:expr, $t:ty) => {{
                // SAFETY: every element is written before the array is handed out; after an error it is dropped.
                let array = unsafe { $array::<$t>::new(py, $shape, false) };
                self.run(py, hasher, states, array.data())?;
                Ok(array.into_any())
            }};
        }
        let [a, b, c, d] = shape;
        match (dimensions, self.width) {
            (3, 4) => fresh!(PyArray3, [a, b, c], i32),
            (3, _) => fresh!(PyArray3, [a, b, c], i64),
            (_, 4) => fresh!(PyArray4, [a, b, c, d], i32),
            (_, _) => fresh!(PyArray4, [a, b, c, d], i64),
        }
    }

    fn run<T: Row>(
        &self,
        py: Python<'py>,
        hasher: &PyHasher,
        states: Option<&[RowState]>,
        data: *mut T,
    ) -> PyResult<()> {
        let request = self.request(py, hasher, states)?;
        let [b, t] = self.place.shape();
        let size = b * t * request.layers.len() * hasher.inner.layout().columns();
        let data = data as usize; // a pointer does not cross into the closure, a number does
        // SAFETY: `data` is the checked `out` or a fresh array of exactly the result's shape.
        released_if(py, size >= WORTH_RELEASING, || unsafe { hasher.inner.run(&request, data as *mut T) })
    }

    pub fn request<'a>(
        &'a self,
        py: Python<'py>,
        hasher: &'a PyHasher,
        states: Option<&'a [RowState]>,
    ) -> PyResult<Request<'a>> {
        let layers = self.layers(hasher);
        let shape = self.place.shape();
        let columns = hasher.inner.layout().columns();
        let axis = match (self.place.flat, self.axis) {
            (true, LayerAxis::AfterBatch) => LayerAxis::BeforeColumns, // [N, L, C]: there is no batch to come after
            (_, axis) => axis,
        };
        let threads = match self.threads {
            Some(threads) => threads,
            None if shape[0] * shape[1] < pool::WORTH_SHARING => 1,
            None if in_loader_worker(py)? => 1,
            None => pool::default_threads(),
        };
        Ok(Request {
            places: self.place.places()?,
            states,
            layers,
            add_offsets: self.add_offsets,
            strides: Strides::new(axis, layers.len(), shape, columns),
            threads,
            check_first: self.out.is_some(),
            flat: self.place.flat,
        })
    }
}

fn in_loader_worker(py: Python) -> PyResult<bool> {
    py.import(intern!(py, "engram_fast._threads"))?.call_method0(intern!(py, "in_loader_worker"))?.extract()
}

fn layer_axis(axis: Option<&Bound<PyAny>>) -> PyResult<LayerAxis> {
    match axis.map(|axis| int_arg(axis, "layer_axis")).transpose()? {
        None | Some(0) => Ok(LayerAxis::First),
        Some(1) => Ok(LayerAxis::AfterBatch),
        Some(-2) => Ok(LayerAxis::BeforeColumns),
        Some(n) => Err(PyValueError::new_err(format!("layer_axis: expected 0, 1 or -2, got {n}"))),
    }
}

fn layer_indices(hasher: &PyHasher, layers: &Bound<PyAny>) -> PyResult<Vec<usize>> {
    let known = &hasher.inner.layout().layers;
    let items = layers
        .try_iter()
        .map_err(|_| PyTypeError::new_err(format!("layers: expected None or a sequence of layer ids, got {layers}")))?;
    items
        .map(|item| {
            let id = int_arg(&item?, "layers")?;
            known.iter().position(|layer| layer.layer_id == id).ok_or_else(|| {
                let ids: Vec<_> = known.iter().map(|layer| layer.layer_id).collect();
                PyValueError::new_err(format!("layers: {id} is not a layer of this layout, which has {ids:?}"))
            })
        })
        .collect()
}

fn dtype_width(dtype: &Bound<PyAny>) -> PyResult<usize> {
    let refuse = || PyTypeError::new_err(format!("dtype: expected int32 or int64, got {dtype}"));
    let descriptor = PyArrayDescr::new(dtype.py(), dtype).map_err(|_| refuse())?;
    row_width(&descriptor).ok_or_else(refuse)
}
