//! `Hasher`: a layout and its token map, prepared; the frozen handle that everything hashes with.

use std::sync::Arc;

use super::compress::Compress;
use super::driver::{self, LayerAxis, Request, Strides};
use super::ids::{Int, Ints};
use super::kernels::{self, Kernel, Row};
use super::places::Places;
use super::plan::{self, LayerPlan};
use super::state::HashState;
use super::window::WindowRule;
use crate::layout::HashLayout;
use crate::pool;
use crate::token_map::TokenMap;
use crate::{Error, Result};

/// Turns token ids into table rows for every layer of a layout.
#[derive(Clone, Debug)]
pub struct Hasher {
    layout: Arc<HashLayout>,
    map: Option<Arc<TokenMap>>,
    pub(super) compress: Compress,
    pub(super) rule: WindowRule,
    /// One per layer, without and with offsets.
    plans: [Vec<LayerPlan>; 2],
    pub(super) kernel: Kernel,
    pub(super) stream_bytes: usize,
}

impl Hasher {
    /// Refuses a token map that the layout was not made for, and a missing one.
    pub fn new(layout: Arc<HashLayout>, map: Option<Arc<TokenMap>>) -> Result<Self> {
        match (&layout.token_map, &map) {
            (Some(made_for), Some(map))
                if (&*made_for.digest, made_for.length, made_for.size) != (map.digest(), map.len(), map.size()) =>
            {
                return Err(Error::value(
                    "token_map",
                    format!(
                        "the layout {} was made for the token map {} of {} ids ({} compressed), not for {} of {} ids ({})",
                        layout.name,
                        made_for.digest,
                        made_for.length,
                        made_for.size,
                        map.digest(),
                        map.len(),
                        map.size()
                    ),
                ));
            }
            (Some(made_for), None) => {
                return Err(Error::value(
                    "token_map",
                    format!(
                        "the layout {} hashes compressed ids and needs its token map of {} ids",
                        layout.name, made_for.length
                    ),
                ));
            }
            (None, Some(_)) => {
                return Err(Error::value(
                    "token_map",
                    format!("the layout {} hashes raw ids and takes no token map", layout.name),
                ));
            }
            _ => {}
        }
        // The fields of a layout are public, and kernels trust its numbers.
        layout.validate()?;
        let stream_bytes = driver::stream_bytes().map_err(|reason| Error::value("ENGRAM_FAST_STREAM_BYTES", reason))?;
        let kernel = kernels::active().map_err(|reason| Error::value("ENGRAM_FAST_KERNEL", reason))?;
        let plans =
            [false, true].map(|add| (0..layout.layers.len()).map(|i| LayerPlan::new(&layout, i, add)).collect());
        let rule = WindowRule {
            max_order: layout.max_order,
            fill: layout.fill,
            boundary_ids: layout.boundary_ids.clone(),
            reversed: plan::reversed(&layout),
        };
        let compress = Compress::new(&layout, map.clone());
        Ok(Self { compress, rule, plans, kernel, stream_bytes, layout, map })
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<HashLayout> {
        &self.layout
    }

    /// The token map, where the layout has one.
    pub fn token_map(&self) -> Option<&Arc<TokenMap>> {
        self.map.as_ref()
    }

    /// The same hasher with another kernel, for tests and measurements.
    pub fn with_kernel(&self, kernel: Kernel) -> Self {
        Self { kernel, ..self.clone() }
    }

    /// The name of the kernel in use.
    pub fn kernel(&self) -> &'static str {
        self.kernel.name
    }

    pub(super) fn plan(&self, layer: usize, add_offsets: bool) -> &LayerPlan {
        &self.plans[usize::from(add_offsets)][layer]
    }

    /// Rows `[L, rows, cols, C]` of a C-contiguous batch of ids `[rows, cols]`, for all layers, in the layout's own way
    /// (with offsets where it adds them), on all processors the process may use. See [`Hasher::run`] for the rest.
    ///
    /// # Errors
    /// An id outside the layout's range; rows that do not fit `R`.
    pub fn hash_batch<I: Int, R: Row>(&self, ids: &[I], rows: usize, cols: usize) -> Result<Vec<R>> {
        let places = Places::new(Ints::new(ids, rows, cols)?, None, None, None)?;
        let add_offsets = self.layout.adds_offsets;
        if size_of::<R>() == 4 && self.layout.max_row(add_offsets) > i64::from(i32::MAX) {
            return Err(Error::value("dtype", format!("row {} is past int32", self.layout.max_row(add_offsets))));
        }
        let layers: Vec<usize> = (0..self.layout.layers.len()).collect();
        let columns = self.layout.columns();
        let mut out = vec![R::default(); layers.len() * ids.len() * columns];
        let request = Request {
            places,
            states: None,
            layers: &layers,
            add_offsets,
            strides: Strides::new(LayerAxis::First, layers.len(), [rows, cols], columns),
            threads: pool::default_threads(),
            check_first: false,
            flat: false,
        };
        // SAFETY: `out` has the size that the strides were made for.
        unsafe { self.run(&request, out.as_mut_ptr())? };
        Ok(out)
    }

    /// Checks values that are compressed already: those of one row, oldest first.
    ///
    /// # Errors
    /// The first that no id of this layout compresses to.
    pub fn check_compressed(&self, values: &[i64]) -> Result<()> {
        self.compress.first_no_value(values).map_or(Ok(()), |(i, what)| {
            Err(Error::TokenId { id: values[i].into(), place: format!("position {i}"), what })
        })
    }

    /// A state for `batch` rows that has seen nothing.
    pub fn new_state(&self, batch: usize) -> HashState {
        HashState::new(batch, self.rule.max_order, self.rule.fill, self.layout.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_changed_after_they_were_checked_are_refused() {
        let text = r#"{"format": "engram-fast-layout", "version": 1, "name": "tiny", "parameters": {}, "orders": [2],
            "heads": 2, "max_order": 2, "columns": "order-major", "mix": "xor", "word_bits": 64, "align": "newest",
            "fill": 0, "boundary_ids": [], "ids": {"limit": 9, "negative": "error", "too_large": "error"},
            "token_map": null, "adds_offsets": true,
            "layers": [{"layer_id": 1, "multipliers": [3, 5], "moduli": [97, 101], "offsets": [0, 97], "rows": 198}]}"#;
        let sound = HashLayout::from_json(text).unwrap();
        assert!(Hasher::new(Arc::new(sound.clone()), None).is_ok());
        let mut broken = sound;
        broken.layers[0].moduli.pop();
        assert!(Hasher::new(Arc::new(broken), None).unwrap_err().to_string().starts_with("layers[0].moduli"));
    }
}
