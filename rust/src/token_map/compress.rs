//! Mapping ids, and saying where an id stands that cannot be mapped.

use super::TokenMap;
use crate::ints::Ints;
use crate::{Error, Result};

impl TokenMap {
    /// Compressed ids of `ids` in row-major order; `shape` is what the caller knows them by and serves the error's place.
    pub fn compress(&self, ids: &Ints, shape: &[usize]) -> Result<Vec<i32>> {
        let [rows, cols] = ids.shape();
        let mut compressed = vec![0; rows * cols];
        self.compress_into(ids, shape, &mut compressed)?;
        Ok(compressed)
    }

    /// The same into memory of the caller, of exactly as many values.
    pub fn compress_into(&self, ids: &Ints, shape: &[usize], compressed: &mut [i32]) -> Result<()> {
        let [rows, cols] = ids.shape();
        let mut block = [0; 512];
        // An entry is never negative, so -1 can mark the ids outside and the loop need not leave at every step. No id of
        // a u64 array that has wrapped into the negative is inside either.
        let outside = -1;
        for row in 0..rows {
            for col in (0..cols).step_by(block.len()) {
                let raw = &mut block[..(cols - col).min(512)];
                ids.load(row, col, raw);
                let out = &mut compressed[row * cols + col..][..raw.len()];
                for (out, &id) in out.iter_mut().zip(&*raw) {
                    *out = usize::try_from(id).ok().and_then(|id| self.lookup.get(id)).copied().unwrap_or(outside);
                }
                if let Some(i) = out.iter().position(|&value| value == outside) {
                    return Err(Error::TokenId {
                        id: ids.get(row, col + i),
                        place: place(shape, row * cols + col + i),
                        what: format!("the token map of {} ids", self.lookup.len()),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Where the element number `position` of a C-order array stands: "row 3, column 17", or "position 17" in one
/// dimension, or "index [0, 3, 17]" in more than two.
pub fn place(shape: &[usize], position: usize) -> String {
    let mut rest = position;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&length| {
            let here = rest % length.max(1);
            rest /= length.max(1);
            here
        })
        .collect();
    index.reverse();
    match index[..] {
        [] | [_] => format!("position {position}"),
        [row, column] => format!("row {row}, column {column}"),
        _ => format!("index {index:?}"),
    }
}
