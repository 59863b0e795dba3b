//! `_core.Hasher`: the frozen handle that hashes, and its verbs on states.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::call::{Arguments, Call, WORTH_RELEASING};
use super::gil::released_if;
use super::handle::{MAX_BATCH, PyHasher};
use super::layout::PyLayout;
use super::places::WhereArrays;
use super::state::PyHashState;
use super::token_map::PyTokenMap;
use crate::hash::Hasher;
use crate::hash::kernels::{available, named};

#[pymethods]
impl PyHasher {
    /// `kernel`: the name of one of `kernels()`, for tests and measurements; None takes the fastest.
    #[new]
    #[pyo3(signature = (layout, token_map=None, *, kernel=None))]
    fn new(
        layout: &Bound<'_, PyLayout>,
        token_map: Option<&Bound<'_, PyTokenMap>>,
        kernel: Option<&str>,
    ) -> PyResult<Self> {
        let py = layout.py();
        let map = token_map.map(|map| map.get().map.clone());
        let mut inner = Hasher::new(layout.get().inner.clone(), map)?;
        if let Some(name) = kernel {
            inner = inner.with_kernel(named("kernel", name)?);
        }
        let digest = layout.get().inner.digest();
        Ok(Self::of(
            inner,
            layout.clone().into_any().unbind(),
            token_map.map_or_else(|| py.None(), |map| map.clone().into_any().unbind()),
            digest,
        ))
    }

    /// The `HashLayout` it was made from, the object itself.
    #[getter]
    fn layout(&self, py: Python) -> Py<PyAny> {
        self.layout.clone_ref(py)
    }

    /// The `TokenMap` it was made from, the object itself, or None.
    #[getter]
    fn token_map(&self, py: Python) -> Py<PyAny> {
        self.token_map.clone_ref(py)
    }

    /// The name of the kernel in use.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.inner.kernel()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let arguments = (this.layout(py), this.token_map(py));
        (slf.get_type(), arguments).into_pyobject(py)
    }

    /// Hash token ids into table rows, all layers in one pass, without the GIL.
    ///
    /// `ids` is any integer array `[B, T]`, or flat `[N]`: any dtype, strides, alignment and byte order, a buffer, a CPU tensor or
    /// nested lists. The result is `[L, B, T, C]` (`layer_axis=0`), `[B, L, T, C]` (1) or `[B, T, L, C]` (-2); for flat ids
    /// `[L, N, C]`, or `[N, L, C]` for 1 and -2. L follows the layout's `layer_ids`, or `layers` as given.
    ///
    /// `out`: a C-contiguous, writeable int32 or int64 array of that shape that shares no memory with the inputs; it is
    /// returned itself. `dtype`: int32 or int64; None takes that of `out`, else int32 where every row number of the layout fits.
    /// `add_offsets`: whether rows count through one table per layer; None does as the layout does. `mask` `[B, T]`: bool or
    /// 0/1, True takes part. `segment_ids` `[B, T]`: the look-back stops where the number changes. `cu_seqlens` `[S + 1]`, for
    /// flat ids: 0, the segments' ends, N. `num_threads`: None (what the process may use; 1 in a data loader's worker) or >= 1.
    ///
    /// Raises IndexError for an id outside the layout's range, ValueError for a wrong shape or value, TypeError for a
    /// wrong dtype; always before anything is written to `out`.
    #[pyo3(signature = (ids, *, out=None, dtype=None, layer_axis=None, layers=None, add_offsets=None, mask=None,
                        segment_ids=None, cu_seqlens=None, num_threads=None),
           text_signature = "($self, ids, *, out=None, dtype=None, layer_axis=0, layers=None, add_offsets=None, mask=None, segment_ids=None, cu_seqlens=None, num_threads=None)")]
    #[allow(clippy::too_many_arguments)]
    fn hash_batch<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
        layer_axis: Option<&Bound<'py, PyAny>>,
        layers: Option<&Bound<'py, PyAny>>,
        add_offsets: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
        cu_seqlens: Option<&Bound<'py, PyAny>>,
        num_threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments =
            Arguments { ids, out, dtype, layer_axis, layers, add_offsets, mask, segment_ids, cu_seqlens, num_threads };
        Ok(Call::new(self, &arguments, None)?.hash(py, self, None)?.0)
    }

    /// Hash the next tokens `[B, T]` of each sequence (flat `[T]` for a state of one) and remember them in `state`.
    ///
    /// Any chunking gives the rows of the whole. Options and errors are those of `hash_batch`; an error leaves the
    /// state as it was. A state in use by another thread is a RuntimeError.
    #[pyo3(signature = (ids, state, *, out=None, dtype=None, layer_axis=None, layers=None, add_offsets=None, mask=None,
                        segment_ids=None, num_threads=None),
           text_signature = "($self, ids, state, *, out=None, dtype=None, layer_axis=0, layers=None, add_offsets=None, mask=None, segment_ids=None, num_threads=None)")]
    #[allow(clippy::too_many_arguments)]
    fn step<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        state: &Bound<'py, PyHashState>,
        out: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
        layer_axis: Option<&Bound<'py, PyAny>>,
        layers: Option<&Bound<'py, PyAny>>,
        add_offsets: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
        num_threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = state.get().lock(self)?;
        let arguments = Arguments {
            ids,
            out,
            dtype,
            layer_axis,
            layers,
            add_offsets,
            mask,
            segment_ids,
            cu_seqlens: None,
            num_threads,
        };
        let call = Call::new(self, &arguments, Some(state.rows.len()))?;
        let (rows, places) = call.hash(py, self, Some(&state))?;
        let length = call.place.shape()[1];
        self.inner.engine().advance(&mut state.rows, &places, call.place.flat, |_| length)?;
        Ok(rows)
    }

    /// Like `step`, but the state stays as it is: the rows of a draft.
    #[pyo3(signature = (ids, state, *, out=None, dtype=None, layer_axis=None, layers=None, add_offsets=None, mask=None,
                        segment_ids=None, num_threads=None),
           text_signature = "($self, ids, state, *, out=None, dtype=None, layer_axis=0, layers=None, add_offsets=None, mask=None, segment_ids=None, num_threads=None)")]
    #[allow(clippy::too_many_arguments)]
    fn peek<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        state: &Bound<'py, PyHashState>,
        out: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
        layer_axis: Option<&Bound<'py, PyAny>>,
        layers: Option<&Bound<'py, PyAny>>,
        add_offsets: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
        num_threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let state = state.get().lock(self)?;
        let arguments = Arguments {
            ids,
            out,
            dtype,
            layer_axis,
            layers,
            add_offsets,
            mask,
            segment_ids,
            cu_seqlens: None,
            num_threads,
        };
        Ok(Call::new(self, &arguments, Some(state.rows.len()))?.hash(py, self, Some(&state))?.0)
    }

    /// Feed the first `accepted[b]` of `ids[b]` to each sequence's state, as `step` would, without hashing them.
    ///
    /// `accepted` `[B]` counts 0 to T (else ValueError); later ids are not looked at. An error leaves the state as it was.
    #[pyo3(signature = (state, ids, accepted, *, mask=None, segment_ids=None))]
    fn commit<'py>(
        &self,
        state: &Bound<'py, PyHashState>,
        ids: &Bound<'py, PyAny>,
        accepted: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let mut state = state.get().lock(self)?;
        let place = WhereArrays::new("ids", ids, mask, segment_ids, None, Some(state.rows.len()))?;
        let counts = place.accepted(accepted)?;
        place.check_unchanged()?;
        let places = place.places();
        *state = self.inner.engine().feed(&state, &places.check()?, place.flat, |row| counts[row])?;
        Ok(())
    }

    /// A state for `batch` sequences that have not begun.
    fn new_state(&self, batch: &Bound<'_, PyAny>) -> PyResult<PyHashState> {
        PyHashState::empty(self, batch)
    }

    /// A state that has seen `ids_so_far` `[B, T]`, or `[T]` for one sequence: a prompt, or at least its last N - 1 ids.
    #[pyo3(signature = (ids_so_far, *, mask=None, segment_ids=None))]
    fn seed<'py>(
        &self,
        py: Python<'py>,
        ids_so_far: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyHashState> {
        let place = WhereArrays::new("ids_so_far", ids_so_far, mask, segment_ids, None, None)?;
        let ([batch, length], flat) = (place.shape(), place.flat);
        if batch > MAX_BATCH {
            return Err(PyValueError::new_err(format!("ids_so_far: {batch} rows are more than {MAX_BATCH}")));
        }
        place.check_unchanged()?;
        let empty = self.inner.new_state(batch);
        let places = place.places();
        let work = || self.inner.engine().feed(&empty, &places.check()?, flat, |_| length);
        Ok(PyHashState::from(released_if(py, batch * length >= WORTH_RELEASING, work)?))
    }
}

/// The names of the kernels that this processor can run, the fastest first.
#[pyfunction]
fn kernels() -> Vec<&'static str> {
    available().iter().map(|kernel| kernel.name).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyHasher>()?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    module.add_class::<PyHashState>()
}
