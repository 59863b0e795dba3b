//! `HashState`: what a batch of sequences remembers between calls. The one class that changes, and says so.

use std::sync::{Mutex, MutexGuard, TryLockError};

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use super::args::int_arg;
use super::arrays::IntArray;
use super::handle::{MAX_BATCH, PyHasher};
use crate::error::Place;
use crate::hash::HashState;
use crate::hash::state::RowState;
use crate::ids::{Ints, Places};
use crate::{Error, Result};

/// The look-back of a batch of sequences between calls, for one layout.
#[pyclass(name = "HashState", module = "engram_fast", frozen, weakref)]
pub struct PyHashState {
    inner: Mutex<HashState>,
}

impl From<HashState> for PyHashState {
    fn from(state: HashState) -> Self {
        Self { inner: Mutex::new(state) }
    }
}

impl PyHashState {
    pub fn empty(hasher: &PyHasher, batch: &Bound<PyAny>) -> PyResult<Self> {
        match int_arg(batch, "batch")? {
            n if (0..=MAX_BATCH as i64).contains(&n) => Ok(hasher.inner.new_state(n as usize).into()),
            n => Err(PyValueError::new_err(format!("batch: expected 0 to {MAX_BATCH}, got {n}"))),
        }
    }

    /// The state, for this caller alone; an error where somebody else has it.
    pub fn alone(&self) -> Result<MutexGuard<'_, HashState>> {
        match self.inner.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::Concurrent),
        }
    }

    /// The same, for use with `hasher`: a state of another layout is refused.
    pub fn lock(&self, hasher: &PyHasher) -> Result<MutexGuard<'_, HashState>> {
        let state = self.alone()?;
        if state.layout == hasher.digest && state.reach + 1 == hasher.inner.layout().max_order {
            return Ok(state);
        }
        Err(Error::StateOfOtherLayout)
    }
}

fn row_numbers(index: &Bound<PyAny>) -> PyResult<Vec<i64>> {
    let index = IntArray::flat(index, "index")?;
    match index.shape()[0] {
        0..=MAX_BATCH => index.to_vec("index"),
        rows => Err(PyValueError::new_err(format!("index: {rows} rows are more than {MAX_BATCH}"))),
    }
}

/// The error of a refused id among `last`, with its place in the array that the caller knows, of which `last` is `row` from
/// `col` on. An equal id in front of it would have been refused first.
fn in_row(error: Error, last: &Ints, [row, col]: [usize; 2]) -> Error {
    let Error::TokenId { id, accepted, .. } = error else { return error };
    let at = (0..last.shape()[1]).find(|&at| last.get(0, at) == id).unwrap_or(0);
    Error::TokenId { id, place: Place::Cell { row, column: col + at }, accepted }
}

#[pymethods]
impl PyHashState {
    /// Sequences.
    #[getter]
    fn batch(&self) -> Result<usize> {
        Ok(self.alone()?.rows.len())
    }

    fn __len__(&self) -> Result<usize> {
        self.batch()
    }

    fn __repr__(&self) -> Result<String> {
        let state = self.alone()?;
        Ok(format!("HashState(batch={}, look_back={})", state.rows.len(), state.reach))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Result<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        if std::ptr::eq(self, other.get()) {
            return Ok(true);
        }
        let (a, b) = (self.alone()?.clone(), other.get().alone()?);
        Ok(a == *b)
    }

    /// A state of its own with the same content.
    fn copy(&self) -> Result<Self> {
        Ok(self.alone()?.clone().into())
    }

    fn __copy__(&self) -> Result<Self> {
        self.copy()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Result<Self> {
        self.copy()
    }

    /// The rows that `index` names, copied in that order: beams reordered, a prefix forked.
    fn select(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let index = row_numbers(index)?;
        Ok(self.alone()?.select(&index)?.into())
    }

    /// Makes the rows that `index` names (all, where it is None) as new: a slot that is used again.
    #[pyo3(signature = (index=None))]
    fn reset(&self, index: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let index = index.map(row_numbers).transpose()?;
        let mut state = self.alone()?;
        let rows = index.unwrap_or_else(|| (0..state.rows.len() as i64).collect());
        state.select(&rows)?; // refuses a row that is not there before any is touched
        let (reach, fill) = (state.reach, state.fill);
        for row in rows {
            state.rows[row as usize] = RowState::new(reach + 1, fill);
        }
        Ok(())
    }

    /// `(history, lengths)`: int64 `[batch, N - 1]`, oldest first and right-aligned, and int64 `[batch]`: how many of the
    /// newest the next token can reach. What is older is the fill; with `raw`, the raw id, or 0 where there was none or it stood under a mask.
    /// The segment is not part of it (pickling keeps it).
    #[pyo3(signature = (*, raw=false))]
    #[allow(clippy::type_complexity)]
    fn to_numpy<'py>(
        &self,
        py: Python<'py>,
        raw: bool,
    ) -> PyResult<(Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<i64>>)> {
        let state = self.alone()?;
        let mut history = vec![];
        let mut lengths = vec![];
        for (i, row) in state.rows.iter().enumerate() {
            if raw && row.known < row.run {
                return Err(PyValueError::new_err(format!(
                    "raw: row {i} was made from compressed ids; its raw ids are not known"
                )));
            }
            history.extend(if raw { &row.raw } else { &row.values });
            lengths.push(row.run as i64);
        }
        let reach = state.reach;
        let history = PyArray1::from_vec(py, history).reshape([state.rows.len(), reach])?;
        Ok((history, PyArray1::from_vec(py, lengths)))
    }

    /// A state from the last ids of each sequence `[batch, any width]`, raw or compressed, oldest first, right-aligned;
    /// `lengths` `[batch]` says how many of each row count. Raw ids are checked as `seed` does, compressed ones against the map's size.
    #[classmethod]
    #[pyo3(signature = (history, hasher, *, raw=true, lengths=None))]
    fn from_numpy(
        _cls: &Bound<'_, PyType>,
        history: &Bound<'_, PyAny>,
        hasher: &Bound<'_, PyHasher>,
        raw: bool,
        lengths: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let hasher = &hasher.get().inner;
        let history = IntArray::new(history, "history", false)?;
        let &[batch, width] = history.shape() else {
            return Err(PyValueError::new_err(format!(
                "history: expected [batch, ids], got the shape {:?}",
                history.shape()
            )));
        };
        if batch > MAX_BATCH {
            return Err(PyValueError::new_err(format!("history: {batch} rows are more than {MAX_BATCH}")));
        }
        let lengths = match lengths {
            None => vec![width as i64; batch],
            Some(lengths) => {
                let lengths = IntArray::new(lengths, "lengths", false)?;
                if lengths.shape() != [batch] {
                    let shape = lengths.shape();
                    return Err(PyValueError::new_err(format!("lengths: expected the shape [{batch}], got {shape:?}")));
                }
                lengths.to_vec("lengths")?
            }
        };
        if let Some((row, length)) = lengths.iter().enumerate().find(|&(_, &n)| n < 0 || n > width as i64) {
            return Err(PyValueError::new_err(format!("lengths: {length} at row {row} is outside 0..{width}")));
        }
        history.check_unchanged("history")?;
        let mut state = hasher.new_state(batch);
        let view = history.view();
        let mut values = vec![0; state.reach];
        for (row, &length) in lengths.iter().enumerate() {
            // Of compressed ids only those in reach count; raw ones are all checked.
            let length = if raw { length as usize } else { state.reach.min(length as usize) };
            let last = view.row_from(row, width - length);
            if raw {
                let places = Places::new(last, None, None, None)?;
                let before = state.with_rows(vec![state.rows[row].clone()]);
                let after = hasher
                    .engine()
                    .feed(&before, &places, true, |_| length)
                    .map_err(|error| in_row(error, &last, [row, width - length]))?;
                state.rows[row] = after.rows.into_iter().next().expect("one row in, one row out");
            } else {
                if let Some([_, col]) = last.first_wrapped() {
                    let value = last.get(0, col);
                    return Err(PyValueError::new_err(format!("history: {value} at row {row} does not fit int64")));
                }
                last.load(0, 0, &mut values[..length]);
                hasher
                    .check_compressed(&values[..length])
                    .map_err(|error| in_row(error, &last, [row, width - length]))?;
                state.rows[row].take_compressed(&values[..length]);
            }
        }
        Ok(state.into())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let py = slf.py();
        let json =
            serde_json::to_vec(&*slf.get().alone()?).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((slf.get_type().getattr("_from_bytes")?, (PyBytes::new(py, &json),)))
    }

    #[classmethod]
    fn _from_bytes(_cls: &Bound<'_, PyType>, json: &[u8]) -> PyResult<Self> {
        let state: HashState =
            serde_json::from_slice(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let sound = |row: &RowState| {
            [row.values.len(), row.raw.len()] == [state.reach; 2] && row.run <= state.reach && row.known <= state.reach
        };
        if !state.rows.iter().all(sound) {
            return Err(PyValueError::new_err("state: the pickled lengths contradict each other"));
        }
        Ok(state.into())
    }
}
