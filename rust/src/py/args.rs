//! Scalar arguments: integers that are integers, with errors that name the argument.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A Python or NumPy integer within `i64`; booleans and floats are TypeErrors, larger ones ValueErrors.
pub fn int_arg(object: &Bound<PyAny>, name: &str) -> PyResult<i64> {
    let py = object.py();
    let type_error = || {
        let got = object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        PyTypeError::new_err(format!("{name}: expected an integer, got {got}"))
    };
    if object.is_instance_of::<PyBool>() {
        return Err(type_error());
    }
    let index =
        py.import(intern!(py, "operator"))?.call_method1(intern!(py, "index"), (object,)).map_err(|_| type_error())?;
    index.extract().map_err(|_| PyValueError::new_err(format!("{name}: {index} is past 64 bits")))
}

/// `num_threads`: None or at least 1. Counts past what a pool can have are as good as its most.
pub fn threads_arg(object: Option<&Bound<PyAny>>) -> PyResult<Option<usize>> {
    let Some(object) = object else { return Ok(None) };
    match int_arg(object, "num_threads")? {
        n if n < 1 => Err(PyValueError::new_err(format!("num_threads: expected None or at least 1, got {n}"))),
        n => Ok(Some(n as usize)),
    }
}

/// A number of ids; negative and absurd ones are errors that name it.
pub fn count(object: &Bound<PyAny>, name: &str) -> PyResult<usize> {
    let bad = || PyValueError::new_err(format!("{name}: {object} is not a count of ids"));
    int_arg(object, name)
        .map_err(|error| if error.is_instance_of::<PyValueError>(object.py()) { bad() } else { error })
        .and_then(|number| usize::try_from(number).map_err(|_| bad()))
}
