//! Integer arguments: arrays of token ids from anything that NumPy reads, and counts.

use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
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
        let empty_list = array.len() == 0 && !ids.hasattr(intern!(py, "dtype"))?;
        let wanted = match (dtype.kind(), dtype.itemsize()) {
            (b'i', 4) => "=i4",
            (b'u', 8) => "=u8",
            (b'i' | b'u', _) => "=i8",
            _ if empty_list => "=i8",
            (kind, _) => return Err(refuse(&array, kind, name)),
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

/// Why an array of another dtype is refused: Python ints past 64 bits are ids outside every map, all else is no id.
fn refuse(array: &Bound<'_, PyUntypedArray>, kind: u8, name: &str) -> PyErr {
    let too_large = || -> PyResult<Option<PyErr>> {
        for (position, item) in array.getattr("flat")?.try_iter()?.enumerate() {
            let item = item?;
            if !item.is_instance_of::<PyInt>() || item.is_instance_of::<PyBool>() {
                return Ok(None);
            }
            if item.extract::<i64>().is_err() {
                let place = place(array.shape(), position);
                return Ok(Some(PyIndexError::new_err(format!("token id {item} at {place} is outside 64 bits"))));
            }
        }
        Ok(None)
    };
    if kind == b'O' {
        match too_large() {
            Ok(Some(error)) | Err(error) => return error,
            Ok(None) => {}
        }
    }
    PyTypeError::new_err(format!("{name}: dtype {} is no integer dtype", array.dtype()))
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
