//! Raw token ids to the values that enter the products: the id range, the token map's look-up, and what is refused.

use std::sync::Arc;

use super::ids::Ints;
use crate::layout::{HashLayout, IdRange, Outside};
use crate::token_map::TokenMap;

/// The first step of hashing for one layout.
#[derive(Clone, Debug)]
pub struct Compress {
    map: Option<Arc<TokenMap>>,
    range: IdRange,
}

impl Compress {
    /// `map` is the one that `layout` names, or none where it hashes raw ids.
    pub fn new(layout: &HashLayout, map: Option<Arc<TokenMap>>) -> Self {
        let mut range = layout.ids;
        if let Some(map) = &map {
            // A layout may know fewer ids than its token map has, but not more.
            let length = map.lookup().len() as i64;
            range.limit = Some(range.limit.map_or(length, |limit| limit.min(length)));
        }
        Self { map, range }
    }

    /// The range of ids that a refused id is outside of, in words.
    pub fn range_in_words(&self) -> String {
        match (&self.map, self.range.limit) {
            (Some(map), Some(limit)) if limit == map.lookup().len() as i64 => format!("the token map of {limit} ids"),
            (_, Some(limit)) => format!("the layout's vocabulary of {limit} ids"),
            (_, None) => "the ids that the layout accepts (0 to 2^63-1)".into(),
        }
    }

    /// The first value, by its index, that is none of those [`Compress::apply`] writes, and what it is outside of.
    pub fn first_no_value(&self, values: &[i64]) -> Option<(usize, String)> {
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
        let words = || size.map_or_else(|| self.range_in_words(), |size| format!("the {size} compressed ids"));
        values.iter().position(refuses).map(|i| (i, words()))
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
    /// the token map or layout: `out` then holds nothing of use, and [`Compress::apply`] is to look at each.
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

    /// [`Compress::load`] of ids that were read already, wherever they lie; returns the index of the first refused one. What
    /// a position that is not live gets is unspecified: nothing reads it.
    pub fn apply(&self, raw: &[i64], live: Option<&[u8]>, wraps: bool, out: &mut [i64]) -> Result<(), usize> {
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
