//! `Places`: the tokens of one call and what bounds their look-back, checked against each other.

use super::ids::Ints;
use crate::{Error, Result};

/// The tokens of one call and what bounds their look-back.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub(super) ids: Ints<'a>,
    pub(super) mask: Option<Ints<'a>>,
    pub(super) segment_ids: Option<Ints<'a>>,
    pub(super) cu_seqlens: Option<&'a [i64]>,
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
        let shape = ids.shape();
        for (name, other) in [("mask", &mask), ("segment_ids", &segment_ids)] {
            if let Some(other) = other
                && other.shape() != shape
            {
                return Err(Error::value(
                    name,
                    format!("expected the shape {shape:?} of the ids as rows and columns, got {:?}", other.shape()),
                ));
            }
        }
        if let Some(mask) = &mask {
            check_mask(mask)?;
        }
        if let Some(starts) = cu_seqlens {
            check_cu_seqlens(starts, shape)?;
        }
        Ok(Self { ids, mask, segment_ids, cu_seqlens })
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
                return Err(Error::value(
                    "mask",
                    format!("expected 0 or 1, got {} at row {row}, column {}", mask.get(row, col + i), col + i),
                ));
            }
        }
    }
    Ok(())
}

fn check_cu_seqlens(starts: &[i64], [rows, length]: [usize; 2]) -> Result<()> {
    let refuse = |reason: String| Err(Error::value("cu_seqlens", reason));
    if rows != 1 {
        return refuse(format!("is for flat ids, got {rows} rows"));
    }
    match (starts.first(), starts.last()) {
        (None, _) | (_, None) => return refuse(format!("is empty; expected 0, …, {length}")),
        (Some(&first), _) if first != 0 => return refuse(format!("begins with {first}, not with 0")),
        (_, Some(&last)) if last != length as i64 => {
            return refuse(format!("ends with {last}, not with the number of ids, {length}"));
        }
        _ => {}
    }
    match starts.windows(2).position(|pair| pair[1] < pair[0]) {
        None => Ok(()),
        Some(i) => refuse(format!("falls from {} to {} at position {}", starts[i], starts[i + 1], i + 1)),
    }
}
