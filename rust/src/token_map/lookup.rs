//! Raw token ids to the values that enter the products: the one range check, and the one look-up.

use std::sync::Arc;

use super::TokenMap;
use crate::error::{Accepted, Place};
use crate::ids::{IdRange, Ints, Outside};
use crate::{Error, Result};

/// The first step of hashing: an id range, and the token map if there is one.
#[derive(Clone, Debug)]
pub struct Lookup {
    map: Option<Arc<TokenMap>>,
    range: IdRange,
}

impl Lookup {
    /// `range` is the layout's; `map` is the one that the layout names, or none if it hashes raw ids.
    pub fn new(mut range: IdRange, map: Option<Arc<TokenMap>>) -> Self {
        if let Some(map) = &map {
            // A layout may know fewer ids than its token map has, but not more.
            let length = map.lookup().len() as i64;
            range.limit = Some(range.limit.map_or(length, |limit| limit.min(length)));
        }
        Self { map, range }
    }

    /// The ids of which a refused one is not.
    pub fn accepted(&self) -> Accepted {
        match (&self.map, self.range.limit) {
            (Some(map), Some(limit)) if limit == map.len() as i64 => Accepted::TokenMap { length: limit },
            (_, Some(length)) => Accepted::Vocabulary { length },
            (_, None) => Accepted::NonNegative,
        }
    }

    #[cfg(feature = "python")]
    /// The first value, by its index, that [`Lookup::apply`] never writes, and the values that it writes.
    pub fn first_no_value(&self, values: &[i64]) -> Option<(usize, Accepted)> {
        let size = self.map.as_ref().map(|map| map.size() as i64);
        let bound = size.or(self.range.limit);
        let refuses = |&value: &i64| {
            let (outside, beyond) = if value < 0 {
                (self.range.negative, true)
            } else {
                (self.range.too_large, bound.is_some_and(|n| value >= n))
            };
            beyond && outside == Outside::Error
        };
        let accepted = || size.map_or_else(|| self.accepted(), |size| Accepted::Compressed { size });
        values.iter().position(refuses).map(|i| (i, accepted()))
    }

    /// Whether ids of this array's type need no check.
    pub fn accepts_all(&self, ids: &Ints) -> bool {
        match self.range {
            IdRange { limit: Some(limit), negative, too_large } => {
                ids.always_below(limit)
                    || (negative == Outside::Enter && too_large == Outside::Enter && !ids.may_wrap())
            }
            IdRange { limit: None, negative, .. } => {
                ids.always_below(i64::MAX) || (negative == Outside::Enter && !ids.may_wrap())
            }
        }
    }

    /// Whether `len` ids from a place on lie in the layout's range, so that none is refused wherever it stands.
    #[inline]
    pub fn takes_all(&self, ids: &Ints, row: usize, col: usize, len: usize) -> bool {
        ids.all_below(row, col, len, self.range.limit.unwrap_or(i64::MAX))
    }

    /// The first refused id, by its index. `live` marks the positions to look at, `wraps` that a negative value
    /// stands for one past `i64::MAX`.
    pub fn first_refused(&self, raw: &[i64], live: Option<&[u8]>, wraps: bool) -> Option<usize> {
        (0..raw.len()).find(|&i| live.is_none_or(|live| live[i] != 0) && self.refuses(raw[i], wraps))
    }

    fn refuses(&self, id: i64, wraps: bool) -> bool {
        if id < 0 {
            wraps || self.range.negative == Outside::Error
        } else {
            self.range.too_large == Outside::Error && self.range.limit.is_some_and(|limit| id >= limit)
        }
    }

    /// Writes what each id contributes to `out`, straight from where it lies. False says that some may be outside the range of
    /// the token map or layout: `out` then holds nothing of use, and [`Lookup::apply`] is to look at each.
    #[inline]
    pub fn load(&self, ids: &Ints, row: usize, col: usize, out: &mut [i64]) -> bool {
        let Some(map) = &self.map else {
            ids.load(row, col, out);
            return self.accepts_all(ids) || self.takes_all(ids, row, col, out.len());
        };
        let lookup = self.part_in_range(map);
        let mut all = true;
        // Plain loads with a branch that is seldom taken: gather instructions are slower on the processors measured.
        ids.load_with(row, col, out, |id| {
            if (id as u64) < lookup.len() as u64 {
                lookup[id as usize].into()
            } else {
                all = false;
                0
            }
        });
        all
    }

    fn part_in_range<'a>(&self, map: &'a TokenMap) -> &'a [i32] {
        let lookup = map.lookup();
        &lookup[..self.range.limit.map_or(lookup.len(), |limit| limit as usize)]
    }

    /// [`Lookup::load`] of ids that were read already, wherever they lie; returns the index of the first refused one. What
    /// a position that is not live gets is unspecified: nothing reads it.
    pub fn apply(
        &self,
        raw: &[i64],
        live: Option<&[u8]>,
        wraps: bool,
        out: &mut [i64],
    ) -> std::result::Result<(), usize> {
        let Some(map) = &self.map else {
            out.copy_from_slice(raw);
            return self.first_refused(raw, live, wraps).map_or(Ok(()), Err);
        };
        let lookup = self.part_in_range(map);
        for (&id, value) in raw.iter().zip(out.iter_mut()) {
            *value = usize::try_from(id).ok().and_then(|id| lookup.get(id)).map_or(id, |&compressed| compressed.into());
        }
        self.first_refused(raw, live, wraps).map_or(Ok(()), Err)
    }
}

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
                        place: Place::of(shape, row * cols + col + i),
                        accepted: Accepted::TokenMap { length: self.lookup.len() as i64 },
                    });
                }
            }
        }
        Ok(())
    }
}
