//! `Hasher`: a layout and its token map, prepared; the frozen handle that everything hashes with.

use std::sync::Arc;

use super::batch::{self, Engine, LayerAxis, Request};
#[cfg(feature = "python")]
use super::kernels::Kernel;
use super::kernels::{self, Row};
use super::plan::{self, LayerPlan};
use super::state::HashState;
use super::window::WindowRule;
#[cfg(feature = "python")]
use crate::error::Place;
use crate::error::{MapId, Mismatch};
use crate::ids::{Int, Ints, Places};
use crate::layout::HashLayout;
use crate::support::pool;
use crate::token_map::{Lookup, TokenMap};
use crate::{Error, Result};

/// Turns token ids into table rows for every layer of a layout.
#[derive(Clone, Debug)]
pub struct Hasher {
    layout: Arc<HashLayout>,
    map: Option<Arc<TokenMap>>,
    engine: Engine,
}

impl Hasher {
    /// Prepares a layout and its token map.
    ///
    /// # Errors
    /// A token map that the layout was not made for, a missing one, a needless one; an environment variable that names a
    /// kernel or a number of bytes that does not exist.
    pub fn new(layout: Arc<HashLayout>, map: Option<Arc<TokenMap>>) -> Result<Self> {
        if let Some(mismatch) = mismatch(&layout, map.as_deref()) {
            return Err(Error::TokenMapMismatch { layout: layout.name.clone(), mismatch });
        }
        layout.validate()?;
        let (stream_bytes, kernel) = (batch::stream_bytes()?, kernels::active()?);
        let plans =
            [false, true].map(|add| (0..layout.layers.len()).map(|i| LayerPlan::new(&layout, i, add)).collect());
        let rule = WindowRule {
            max_order: layout.max_order,
            fill: layout.fill,
            boundary_ids: layout.boundary_ids.clone(),
            reversed: plan::reversed(&layout),
        };
        let lookup = Lookup::new(layout.ids, map.clone());
        let engine = Engine { lookup, rule, plans, columns: layout.columns(), kernel, stream_bytes };
        Ok(Self { layout, map, engine })
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<HashLayout> {
        &self.layout
    }

    /// The token map, if the layout has one.
    pub fn token_map(&self) -> Option<&Arc<TokenMap>> {
        self.map.as_ref()
    }

    /// The same hasher with another kernel, for tests and measurements.
    #[cfg(feature = "python")]
    pub(crate) fn with_kernel(&self, kernel: Kernel) -> Self {
        Self { engine: Engine { kernel, ..self.engine.clone() }, ..self.clone() }
    }

    /// The name of the kernel in use.
    pub fn kernel(&self) -> &'static str {
        self.engine.kernel.name
    }

    #[cfg(feature = "python")]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A batch of raw ids `[rows, columns]` in C order, to be hashed by [`Batch::into`] or [`Batch::to_vec`].
    ///
    /// # Errors
    /// A slice whose length is not that of its shape.
    pub fn batch<'a, I: Int>(&'a self, ids: &'a [I], shape: [usize; 2]) -> Result<Batch<'a>> {
        Ok(self.batch_of(Ints::new(ids, shape[0], shape[1])?))
    }

    /// The same for ids in any layout of memory.
    pub fn batch_of<'a>(&'a self, ids: Ints<'a>) -> Batch<'a> {
        Batch {
            hasher: self,
            ids,
            mask: None,
            segment_ids: None,
            cu_seqlens: None,
            layers: None,
            axis: LayerAxis::First,
            add_offsets: self.layout.adds_offsets,
            threads: pool::default_threads(),
        }
    }

    /// A state for `batch` rows that has seen nothing.
    pub fn new_state(&self, batch: usize) -> HashState {
        HashState::new(batch, self.engine.rule.max_order, self.engine.rule.fill, self.layout.digest())
    }

    /// A state that has seen the tokens of `batch`, one row of it for each row of the batch.
    ///
    /// # Errors
    /// Those of the batch.
    pub fn seed(&self, batch: &Batch) -> Result<HashState> {
        let [rows, cols] = batch.ids.shape();
        self.engine.feed(&self.new_state(rows), &batch.places()?, false, |_| cols)
    }

    /// Hashes the next tokens of each row and moves the state past them. An error leaves the state as it was, and `out`
    /// untouched.
    ///
    /// # Errors
    /// Those of [`Batch::into`]; a state of another layout, or of another number of rows.
    pub fn step<R: Row>(&self, batch: &Batch, state: &mut HashState, out: &mut [R]) -> Result<()> {
        self.peek(batch, state, out)?;
        let cols = batch.ids.shape()[1];
        self.engine.advance(&mut state.rows, &batch.places()?, false, |_| cols)
    }

    /// As [`Hasher::step`], but the state stays as it is: the rows of a draft.
    ///
    /// # Errors
    /// Those of [`Hasher::step`].
    pub fn peek<R: Row>(&self, batch: &Batch, state: &HashState, out: &mut [R]) -> Result<()> {
        self.check_state(batch, state)?;
        batch.run(Some(state), out)
    }

    /// Moves the state past the first `accepted[b]` tokens of each row `b`, as `step` would, without hashing them.
    ///
    /// # Errors
    /// Those of [`Hasher::step`]; another number of counts than rows, or a count past the row's end.
    pub fn commit(&self, batch: &Batch, state: &mut HashState, accepted: &[usize]) -> Result<()> {
        self.check_state(batch, state)?;
        let [rows, length] = batch.ids.shape();
        if accepted.len() != rows {
            return Err(Error::Shape { name: "accepted", expected: vec![rows], got: vec![accepted.len()] });
        }
        if let Some((row, &count)) = accepted.iter().enumerate().find(|&(_, &count)| count > length) {
            return Err(Error::Accepted { count: count as i64, row, length });
        }
        *state = self.engine.feed(state, &batch.places()?, false, |row| accepted[row])?;
        Ok(())
    }

    /// Refuses a state that another layout's hasher made.
    pub(crate) fn owns(&self, state: &HashState) -> bool {
        state.reach + 1 == self.layout.max_order && state.layout == self.layout.digest()
    }

    fn check_state(&self, batch: &Batch, state: &HashState) -> Result<()> {
        if !self.owns(state) {
            return Err(Error::StateOfOtherLayout);
        }
        let [rows, cols] = batch.ids.shape();
        if state.rows.len() != rows {
            return Err(Error::Shape { name: "ids", expected: vec![state.rows.len(), cols], got: vec![rows, cols] });
        }
        Ok(())
    }

    #[cfg(feature = "python")]
    /// Checks values that are compressed already: those of one row, oldest first.
    ///
    /// # Errors
    /// The first that no id of this layout compresses to.
    pub(crate) fn check_compressed(&self, values: &[i64]) -> Result<()> {
        self.engine.lookup.first_no_value(values).map_or(Ok(()), |(i, accepted)| {
            Err(Error::TokenId { id: values[i].into(), place: Place::Position(i), accepted })
        })
    }
}

fn mismatch(layout: &HashLayout, map: Option<&TokenMap>) -> Option<Mismatch> {
    match (&layout.token_map, map) {
        (Some(id), Some(map)) if (&*id.digest, id.length, id.size) == (map.digest(), map.len(), map.size()) => None,
        (Some(id), Some(map)) => Some(Mismatch::Other {
            expected: Box::new(MapId { digest: id.digest.clone(), length: id.length, size: id.size }),
            got: Box::new(MapId { digest: map.digest().into(), length: map.len(), size: map.size() }),
        }),
        (Some(id), None) => Some(Mismatch::Missing { length: id.length }),
        (None, Some(_)) => Some(Mismatch::Needless),
        (None, None) => None,
    }
}

/// A batch of ids and the options of its hashing; made by [`Hasher::batch`].
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    hasher: &'a Hasher,
    ids: Ints<'a>,
    mask: Option<&'a [bool]>,
    segment_ids: Option<&'a [i64]>,
    cu_seqlens: Option<&'a [i64]>,
    layers: Option<&'a [i64]>,
    axis: LayerAxis,
    add_offsets: bool,
    threads: usize,
}

impl<'a> Batch<'a> {
    /// Which positions take part, one value for each id.
    pub fn mask(self, mask: &'a [bool]) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// Numbers at whose changes look-back stops, one for each id.
    pub fn segment_ids(self, segment_ids: &'a [i64]) -> Self {
        Self { segment_ids: Some(segment_ids), ..self }
    }

    /// The bounds of the segments of a single row: 0, the segments' ends, the number of ids.
    pub fn cu_seqlens(self, cu_seqlens: &'a [i64]) -> Self {
        Self { cu_seqlens: Some(cu_seqlens), ..self }
    }

    /// Layer ids, in the order of the result; without them all layers of the layout.
    pub fn layers(self, layers: &'a [i64]) -> Self {
        Self { layers: Some(layers), ..self }
    }

    /// The layers' place among the axes of the result.
    pub fn layer_axis(self, axis: LayerAxis) -> Self {
        Self { axis, ..self }
    }

    /// Whether rows count through one table per layer; without it as the layout does.
    pub fn add_offsets(self, add_offsets: bool) -> Self {
        Self { add_offsets, ..self }
    }

    /// At most this many threads; without it as many as the process may use.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Elements of the result: layers times ids times columns.
    ///
    /// # Errors
    /// A layer that the layout does not have.
    pub fn result_len(&self) -> Result<usize> {
        let [rows, cols] = self.ids.shape();
        Ok(self.layer_indices()?.len() * rows * cols * self.hasher.engine.columns)
    }

    /// Hashes into a new vector.
    ///
    /// # Errors
    /// Those of [`Batch::into`].
    pub fn to_vec<R: Row>(&self) -> Result<Vec<R>> {
        let mut out = vec![R::default(); self.result_len()?];
        Batch::into(*self, &mut out)?;
        Ok(out)
    }

    /// Hashes into `out`: `[L, B, T, C]`, or with the layers at another axis. An error leaves `out` untouched.
    ///
    /// # Errors
    /// An id outside the layout's range, a shape that differs, a wrong mask or bound, an unknown layer, row numbers that
    /// `R` does not hold, an `out` of another length than [`Batch::result_len`].
    pub fn into<R: Row>(self, out: &mut [R]) -> Result<()> {
        self.run(None, out)
    }

    fn run<R: Row>(&self, state: Option<&HashState>, out: &mut [R]) -> Result<()> {
        let layers = self.layer_indices()?;
        let layout = &self.hasher.layout;
        if size_of::<R>() == 4 && !layout.fits_int32(self.add_offsets) {
            let row = layout.max_row(self.add_offsets);
            return Err(Error::RowWidth { row, layout: layout.name.clone() });
        }
        let expected = self.result_len()?;
        if out.len() != expected {
            return Err(Error::Shape { name: "out", expected: vec![expected], got: vec![out.len()] });
        }
        let request = Request {
            places: self.places()?,
            states: state.map(|state| &state.rows[..]),
            layers: &layers,
            add_offsets: self.add_offsets,
            axis: self.axis,
            threads: self.threads,
            check_first: true,
            flat: false,
        };
        // SAFETY: `out` is borrowed exclusively and holds layers times tokens times columns elements.
        unsafe { self.hasher.engine.run(&request, out.as_mut_ptr()) }
    }

    fn places(&self) -> Result<Places<'a>> {
        let [rows, cols] = self.ids.shape();
        let beside = |name, length| {
            if length == rows * cols { Ok(()) } else { Err(Error::Length { name, length, shape: vec![rows, cols] }) }
        };
        let mask = match self.mask {
            None => None,
            Some(mask) => {
                beside("mask", mask.len())?;
                Some(Ints::new(mask, rows, cols)?)
            }
        };
        let segment_ids = match self.segment_ids {
            None => None,
            Some(segment_ids) => {
                beside("segment_ids", segment_ids.len())?;
                Some(Ints::new(segment_ids, rows, cols)?)
            }
        };
        Places::new(self.ids, mask, segment_ids, self.cu_seqlens)
    }

    fn layer_indices(&self) -> Result<Vec<usize>> {
        let known = &self.hasher.layout.layers;
        let Some(layers) = self.layers else { return Ok((0..known.len()).collect()) };
        let find = |&layer: &i64| {
            known
                .iter()
                .position(|one| one.layer_id == layer)
                .ok_or_else(|| Error::Layer { layer, known: known.iter().map(|one| one.layer_id).collect() })
        };
        layers.iter().map(find).collect()
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
