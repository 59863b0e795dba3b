//! The object behind `_core.Hasher`, which calls and states share.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::hash::Hasher;

/// More rows than any batch has; a guard for whatever remembers something of every row.
pub const MAX_BATCH: usize = 1 << 20;

/// A layout and its token map, ready to hash.
#[pyclass(name = "Hasher", module = "engram_fast._core", frozen, subclass)]
pub struct PyHasher {
    pub inner: Arc<Hasher>,
    pub all_layers: Vec<usize>,
    pub layout: Py<PyAny>,
    pub token_map: Py<PyAny>,
    fits: [bool; 2],
    /// The layout's.
    pub digest: String,
}

impl PyHasher {
    /// The handle of `inner`, made from these Python objects.
    pub fn of(inner: Hasher, layout: Py<PyAny>, token_map: Py<PyAny>, digest: String) -> Self {
        let fits = [false, true].map(|add| inner.layout().fits_int32(add));
        let all_layers = (0..inner.layout().layers.len()).collect();
        Self { inner: Arc::new(inner), all_layers, layout, token_map, fits, digest }
    }

    /// Whether every row number of the layout, with or without offsets, fits int32.
    pub fn fits_int32(&self, add_offsets: bool) -> bool {
        self.fits[usize::from(add_offsets)]
    }
}
