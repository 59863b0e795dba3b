//! Where tokens stand, from Python: ids, mask, segment ids and `cu_seqlens`, whose shapes agree.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arrays::IntArray;
use crate::error::CuSeqlens;
use crate::ids::Places;

/// Where tokens stand: the part of the arguments that states need too.
pub struct WhereArrays<'py> {
    ids: IntArray<'py>,
    mask: Option<IntArray<'py>>,
    segment_ids: Option<IntArray<'py>>,
    cu_seqlens: Option<Vec<i64>>,
    name: &'static str,
    pub flat: bool,
}

impl<'py> WhereArrays<'py> {
    /// `name`: the caller's word for the ids; `batch`: the number of rows that a state wants.
    pub fn new(
        name: &'static str,
        ids: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        segment_ids: Option<&Bound<'py, PyAny>>,
        cu_seqlens: Option<&Bound<'py, PyAny>>,
        batch: Option<usize>,
    ) -> PyResult<Self> {
        let ids = IntArray::new(ids, name, false)?;
        let flat = match ids.shape().len() {
            1 => true,
            2 => false,
            n => {
                return Err(PyValueError::new_err(format!(
                    "{name}: expected [N] or [B, T], got {n} dimensions, shape {:?}",
                    ids.shape()
                )));
            }
        };
        let beside = |array: Option<&Bound<'py, PyAny>>, field: &str, bools: bool| {
            let array = array.map(|array| IntArray::new(array, field, bools)).transpose()?;
            match array {
                Some(array) if array.shape() != ids.shape() => Err(PyValueError::new_err(format!(
                    "{field}: expected the shape of the ids, {:?}, got {:?}",
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
                return Err(crate::Error::from(CuSeqlens::Batch { rows: ids.shape()[0] }).into());
            }
            Some(starts) => Some(IntArray::flat(starts, "cu_seqlens")?.to_vec("cu_seqlens")?),
        };
        let array = Self { ids, mask, segment_ids, cu_seqlens, name, flat };
        match batch {
            Some(batch) if array.shape()[0] != batch => Err(PyValueError::new_err(format!(
                "{name}: the state has {batch} rows, the ids have the shape {:?}",
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

    /// The tokens and their boundaries, to be checked by [`Places::check`]: without the interpreter, since it reads all of a
    /// mask.
    pub fn places(&self) -> Places<'_> {
        let views = [&self.mask, &self.segment_ids].map(|array| array.as_ref().map(IntArray::view));
        Places::unchecked(self.ids.view(), views[0], views[1], self.cu_seqlens.as_deref())
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
        let counts = accepted.to_vec("accepted")?;
        let count = |(row, &count): (usize, &i64)| {
            usize::try_from(count)
                .ok()
                .filter(|&count| count <= cols)
                .ok_or_else(|| PyValueError::new_err(format!("accepted: {count} at row {row} is outside 0..{cols}")))
        };
        counts.iter().enumerate().map(count).collect()
    }

    /// The arrays that are read while the result is written.
    pub fn inputs(&self) -> Vec<(&'static str, &IntArray<'py>)> {
        self.each_input().collect()
    }

    /// Refuses arrays that are no longer what they were when they were taken. To be called after the last line that can
    /// run code of the caller, and before the core reads a value.
    pub fn check_unchanged(&self) -> PyResult<()> {
        self.each_input().try_for_each(|(name, array)| array.check_unchanged(name))
    }

    fn each_input(&self) -> impl Iterator<Item = (&'static str, &IntArray<'py>)> {
        let beside = [("mask", &self.mask), ("segment_ids", &self.segment_ids)];
        let beside = beside.into_iter().filter_map(|(name, array)| Some((name, array.as_ref()?)));
        std::iter::once((self.name, &self.ids)).chain(beside)
    }
}
