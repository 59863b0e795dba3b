//! One hashing call from Python: its arguments, checked before anything is written, and its result.

use numpy::PyArrayDescr;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use super::args::{int_arg, threads_arg};
use super::arrays::{OutArray, allocate, data, row_width};
use super::gil::released_if;
use super::handle::PyHasher;
use super::places::WhereArrays;
use crate::hash::batch::Request;
use crate::hash::state::RowState;
use crate::hash::{HashState, LayerAxis, Row};
use crate::ids::Places;
use crate::support::pointers::SharedMut;
use crate::support::pool;

/// Rows below this many are hashed before another thread could be woken.
pub const WORTH_RELEASING: usize = 1 << 13;

/// More layers than anybody asks for at once; what is iterated over might never end.
const MAX_LAYERS: usize = 1 << 16;

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
        let place = WhereArrays::new("ids", ids, mask, segment_ids, cu_seqlens, batch)?;
        let axis = layer_axis(arguments.layer_axis)?;
        let layers = arguments.layers.map(|layers| layer_indices(hasher, layers)).transpose()?;
        let add_offsets = match arguments.add_offsets {
            None => hasher.inner.layout().adds_offsets,
            Some(flag) => flag
                .extract()
                .map_err(|_| PyTypeError::new_err(format!("add_offsets: expected None, True or False, got {flag}")))?,
        };
        let threads = threads_arg(arguments.num_threads)?;
        let asked = arguments.dtype.map(dtype_width).transpose()?;
        let out = arguments.out.map(|out| Ok::<_, PyErr>((out.clone(), OutArray::new(out)?))).transpose()?;
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
        Ok(Self { place, out, width, axis, layers, add_offsets, threads })
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

    /// Hashes after `state`, where there is one. The result is `out` itself or a new array; with it come the tokens, for
    /// whoever moves the state on.
    pub fn hash(
        &self,
        py: Python<'py>,
        hasher: &PyHasher,
        state: Option<&HashState>,
    ) -> PyResult<(Bound<'py, PyAny>, Places<'_>)> {
        let states = state.map(|state| &state.rows[..]);
        let (shape, dimensions) = self.shape(hasher);
        let shape = &shape[..dimensions];
        let threads = self.threads(py)?;
        let (result, first) = match &self.out {
            Some((object, out)) => (object.clone(), out.take(shape, &self.place.inputs())?),
            None => {
                let bytes = shape.iter().try_fold(self.width, |bytes, &n| bytes.checked_mul(n));
                if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                    return Err(PyValueError::new_err(format!("ids: the result would have the shape {shape:?}")));
                }
                // Every element is written before the array is handed out; after an error it is dropped.
                let array = allocate(py, shape, self.width, false)?;
                let first = data(&array);
                self.place.check_unchanged()?;
                (array.into_any(), first)
            }
        };
        let places = match self.width {
            4 => self.run(py, hasher, states, threads, first.cast::<i32>())?,
            _ => self.run(py, hasher, states, threads, first.cast::<i64>())?,
        };
        Ok((result, places))
    }

    fn threads(&self, py: Python<'py>) -> PyResult<usize> {
        let [rows, cols] = self.place.shape();
        Ok(match self.threads {
            Some(threads) => threads,
            None if rows * cols < pool::WORTH_SHARING => 1,
            None if in_loader_worker(py)? => 1,
            None => pool::default_threads(),
        })
    }

    fn run<T: Row>(
        &self,
        py: Python<'py>,
        hasher: &PyHasher,
        states: Option<&[RowState]>,
        threads: usize,
        out: *mut T,
    ) -> PyResult<Places<'_>> {
        let (shape, layers) = (self.place.shape(), self.layers(hasher));
        let columns = hasher.inner.layout().columns();
        let axis = match (self.place.flat, self.axis) {
            (true, LayerAxis::AfterBatch) => LayerAxis::BeforeColumns, // [N, L, C]: there is no batch to come after
            (_, axis) => axis,
        };
        let tokens = shape[0] * shape[1];
        let (add_offsets, flat, check_first) = (self.add_offsets, self.place.flat, self.out.is_some());
        let (places, out) = (self.place.places(), SharedMut::new(out));
        let work = || {
            let places = places.check()?;
            let request = Request { places, states, layers, add_offsets, axis, threads, check_first, flat };
            // SAFETY: `out` is the checked array of the caller or a fresh one, of exactly the result's shape.
            unsafe { hasher.inner.engine().run(&request, out.at(0))? };
            Ok(places)
        };
        released_if(py, tokens.saturating_mul(layers.len() * columns) >= WORTH_RELEASING, work)
    }
}

/// Whether this process is a worker of a torch DataLoader. torch is asked only if the program has loaded it itself.
fn in_loader_worker(py: Python) -> PyResult<bool> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let data = modules.call_method1(intern!(py, "get"), (intern!(py, "torch.utils.data"),))?;
    Ok(!data.is_none() && !data.call_method0(intern!(py, "get_worker_info"))?.is_none())
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
    let find = |item: PyResult<Bound<PyAny>>| {
        let id = int_arg(&item?, "layers")?;
        known.iter().position(|layer| layer.layer_id == id).ok_or_else(|| {
            let ids: Vec<_> = known.iter().map(|layer| layer.layer_id).collect();
            PyValueError::new_err(format!("layers: {id} is not a layer of this layout, which has {ids:?}"))
        })
    };
    let indices = items.take(MAX_LAYERS + 1).map(find).collect::<PyResult<Vec<_>>>()?;
    if indices.len() > MAX_LAYERS {
        return Err(PyValueError::new_err(format!("layers: there are more than {MAX_LAYERS}")));
    }
    Ok(indices)
}

fn dtype_width(dtype: &Bound<PyAny>) -> PyResult<usize> {
    let refuse = || PyTypeError::new_err(format!("dtype: expected int32 or int64, got {dtype}"));
    let descriptor = PyArrayDescr::new(dtype.py(), dtype).map_err(|_| refuse())?;
    row_width(&descriptor).ok_or_else(refuse)
}
