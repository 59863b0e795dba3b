//! Which Python exception each core error becomes.

use pyo3::PyErr;
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};

use crate::Error;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Value { .. } | Error::File { .. } | Error::Tokenizer(_) => PyValueError::new_err(text),
            Error::TokenId { .. } | Error::Row { .. } => PyIndexError::new_err(text),
            Error::Io { .. } => PyOSError::new_err(text),
            Error::Concurrent => PyRuntimeError::new_err(text),
        }
    }
}
