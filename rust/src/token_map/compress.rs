//! Mapping ids, and saying where an id stands that cannot be mapped.

use super::TokenMap;
use crate::{Error, Result};

impl TokenMap {
    /// Compressed ids of `ids`, which have the given C-order `shape` (it only serves the error's place).
    pub fn compress<I>(&self, ids: &[I], shape: &[usize]) -> Result<Vec<i32>>
    where
        I: Copy + TryInto<usize> + Into<i128>,
    {
        ids.iter()
            .enumerate()
            .map(|(position, &id)| {
                let found = id.try_into().ok().and_then(|index| self.lookup.get(index));
                found.copied().ok_or_else(|| Error::TokenId {
                    id: id.into(),
                    place: place(shape, position),
                    what: format!("the token map of {} ids", self.lookup.len()),
                })
            })
            .collect()
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
