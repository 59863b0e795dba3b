//! Core errors as Python exceptions; the only place that decides which becomes which.

use pyo3::PyErr;
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};

use crate::Error;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::TokenId { .. } | Error::Row { .. } => PyIndexError::new_err(message),
            Error::Concurrent => PyRuntimeError::new_err(message),
            Error::Io { path, source } => match source.raw_os_error() {
                // Python picks FileNotFoundError, PermissionError, … by the number.
                Some(code) => {
                    let text = source.to_string();
                    let text = text.rsplit_once(" (os error").map_or(text.as_str(), |(text, _)| text).to_owned();
                    PyOSError::new_err((code, text, path.into_os_string()))
                }
                None => PyOSError::new_err(message),
            },
            _ => PyValueError::new_err(message),
        }
    }
}
