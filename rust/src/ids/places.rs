//! `Places`: the tokens of one call and what bounds their look-back, checked against each other.

use super::ints::Ints;
use crate::error::{CuSeqlens, Place};
use crate::{Error, Result};

/// The tokens of one call and what bounds their look-back.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub(crate) ids: Ints<'a>,
    pub(crate) mask: Option<Ints<'a>>,
    pub(crate) segment_ids: Option<Ints<'a>>,
    pub(crate) cu_seqlens: Option<&'a [i64]>,
}

impl<'a> Places<'a> {
    /// Raw `ids` `[B, T]`; `mask` `[B, T]`, 1 where a position takes part and 0 where it does not; `segment_ids` `[B, T]`:
    /// the look-back stops where the number changes; `cu_seqlens`: for a single row, where its segments begin (0 first)
    /// and its length last, empty segments anywhere.
    ///
    /// # Errors
    /// Shapes that differ, a mask value other than 0 and 1, and a `cu_seqlens` that is none.
    pub fn new(
        ids: Ints<'a>,
        mask: Option<Ints<'a>>,
        segment_ids: Option<Ints<'a>>,
        cu_seqlens: Option<&'a [i64]>,
    ) -> Result<Self> {
        Self::unchecked(ids, mask, segment_ids, cu_seqlens).check()
    }

    /// The same, not checked yet.
    pub(crate) fn unchecked(
        ids: Ints<'a>,
        mask: Option<Ints<'a>>,
        segment_ids: Option<Ints<'a>>,
        cu_seqlens: Option<&'a [i64]>,
    ) -> Self {
        Self { ids, mask, segment_ids, cu_seqlens }
    }

    /// Looks at shapes, mask and bounds, as [`Places::new`] does.
    pub(crate) fn check(self) -> Result<Self> {
        let Self { ids, mask, segment_ids, cu_seqlens } = &self;
        let shape = ids.shape();
        for (name, other) in [("mask", mask), ("segment_ids", segment_ids)] {
            if let Some(other) = other
                && other.shape() != shape
            {
                return Err(Error::Shape { name, expected: shape.to_vec(), got: other.shape().to_vec() });
            }
        }
        if let Some(mask) = mask {
            check_mask(mask)?;
        }
        if let Some(starts) = cu_seqlens {
            check_cu_seqlens(starts, shape)?;
        }
        Ok(self)
    }

    /// The raw ids.
    pub fn ids(&self) -> &Ints<'a> {
        &self.ids
    }
}

fn check_mask(mask: &Ints) -> Result<()> {
    if mask.always_below(2) {
        return Ok(());
    }
    let [rows, cols] = mask.shape();
    let mut values = [0; 512];
    for row in 0..rows {
        for col in (0..cols).step_by(values.len()) {
            let values = &mut values[..(cols - col).min(512)];
            mask.load(row, col, values);
            if values.iter().fold(0, |bits, value| bits | value) & !1 != 0 {
                let i = values.iter().position(|value| value & !1 != 0).expect("one of them has another bit");
                let place = Place::Cell { row, column: col + i };
                return Err(Error::Mask { value: mask.get(row, col + i), place });
            }
        }
    }
    Ok(())
}

fn check_cu_seqlens(starts: &[i64], [rows, length]: [usize; 2]) -> Result<()> {
    let fault = match (starts.first(), starts.last()) {
        _ if rows != 1 => CuSeqlens::Batch { rows },
        (None, _) | (_, None) => CuSeqlens::Empty { length },
        (Some(&first), _) if first != 0 => CuSeqlens::First { first },
        (_, Some(&last)) if last != length as i64 => CuSeqlens::Last { last, length },
        _ => match starts.windows(2).position(|pair| pair[1] < pair[0]) {
            None => return Ok(()),
            Some(i) => CuSeqlens::Falls { from: starts[i], to: starts[i + 1], position: i + 1 },
        },
    };
    Err(fault.into())
}
