//! Mapping ids, and saying where an id stands that cannot be mapped.

use super::TokenMap;
use crate::{Error, Result};

impl TokenMap {
    /// Compressed ids of `ids`, which have the given C-order `shape` (it only serves the error's place).
    pub fn compress<I>(&self, ids: &[I], shape: &[usize]) -> Result<Vec<i32>>
    where
        I: Copy + TryInto<usize> + Into<i128>,
    {
        // An entry is never negative, so -1 can mark the ids outside and the loop need not leave at every step.
        let outside = -1;
        let find = |&id: &I| id.try_into().ok().and_then(|index| self.lookup.get(index)).copied().unwrap_or(outside);
        let compressed: Vec<i32> = ids.iter().map(find).collect();
        match compressed.iter().position(|&value| value == outside) {
            None => Ok(compressed),
            Some(position) => Err(Error::TokenId {
                id: ids[position].into(),
                place: place(shape, position),
                what: format!("the token map of {} ids", self.lookup.len()),
            }),
        }
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
