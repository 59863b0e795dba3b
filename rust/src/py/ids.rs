//! Integer arguments: arrays of token ids from anything that NumPy reads, and counts.

use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::token_map::place;
use crate::{Error, Result};

/// Token ids as a contiguous, aligned array in native byte order.
pub enum Ids<'py> {
    I32(PyReadonlyArrayDyn<'py, i32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    U64(PyReadonlyArrayDyn<'py, u64>),
}

impl<'py> Ids<'py> {
    /// From an array of any integer dtype, a nested list of ints, a CPU tensor. Float and bool are TypeErrors.
    pub fn read(ids: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let py = ids.py();
        let np = py.import(intern!(py, "numpy"))?;
        let array = np.call_method1(intern!(py, "asarray"), (ids,))?;
        let array = array.cast_into::<PyUntypedArray>()?;
        let dtype = array.dtype();
        // `[]` has no dtype of its own; NumPy calls it float64.
        let is_list = !ids.hasattr(intern!(py, "dtype"))?;
        let wanted = match (dtype.kind(), dtype.itemsize()) {
            (b'i', 4) => "=i4",
            (b'u', 8) => "=u8",
            (b'i' | b'u', _) => "=i8",
            _ if is_list && array.len() == 0 => "=i8",
            (b'O' | b'f', _) if is_list => return Err(too_large(ids)?.unwrap_or_else(|| no_integers(&dtype, name))),
            _ => return Err(no_integers(&dtype, name)),
        };
        let requirements = (intern!(py, "C"), intern!(py, "A"));
        let array = np.call_method1(intern!(py, "require"), (array, wanted, requirements))?;
        Ok(match wanted {
            "=i4" => Self::I32(array.cast_into::<PyArrayDyn<i32>>()?.try_readonly()?),
            "=u8" => Self::U64(array.cast_into::<PyArrayDyn<u64>>()?.try_readonly()?),
            _ => Self::I64(array.cast_into::<PyArrayDyn<i64>>()?.try_readonly()?),
        })
    }

    pub fn shape(&self) -> &[usize] {
        match self {
            Self::I32(array) => array.shape(),
            Self::I64(array) => array.shape(),
            Self::U64(array) => array.shape(),
        }
    }
}

fn no_integers(dtype: &Bound<'_, PyArrayDescr>, name: &str) -> PyErr {
    PyTypeError::new_err(format!("{name}: dtype {dtype} is no integer dtype"))
}

/// The error for the first int of a nested list of ints that no 64 bits hold: NumPy makes floats or objects of such
/// a list, yet it holds ids, one of which is outside every map. `None` where anything else is in it.
fn too_large(ids: &Bound<'_, PyAny>) -> PyResult<Option<PyErr>> {
    let np = ids.py().import(intern!(ids.py(), "numpy"))?;
    let array = np.call_method1(intern!(ids.py(), "asarray"), (ids, "O"))?.cast_into::<PyUntypedArray>()?;
    let mut first = None;
    for (position, item) in array.getattr("flat")?.try_iter()?.enumerate() {
        let item = item?;
        if !item.is_instance_of::<PyInt>() || item.is_instance_of::<PyBool>() {
            return Ok(None);
        }
        if first.is_none() && item.extract::<i64>().is_err() {
            let place = place(array.shape(), position);
            first = Some(PyIndexError::new_err(format!("token id {item} at {place} is outside 0..2^63")));
        }
    }
    Ok(first)
}

/// A count from a Python int; negative and absurd ones are errors that name it.
pub fn count(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(format!("{name}: a bool is no count")));
    }
    let bad = || -> Result<usize> { Err(Error::value(name, format!("{value} is not a count of ids"))) };
    match value.extract::<i128>() {
        Ok(number) => Ok(usize::try_from(number).or_else(|_| bad())?),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(bad()?),
        Err(error) => Err(error),
    }
}
