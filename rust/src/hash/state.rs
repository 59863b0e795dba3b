//! `HashState`: what must be remembered between calls so that any chunking equals the whole.

use serde::{Deserialize, Serialize};

use crate::ids::Places;
use crate::layout::MAX_ORDER;
use crate::{Error, Result};

/// One row of a batch, between calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowState {
    /// The last N - 1 values that enter the products, oldest first; the fill where nothing is reachable.
    pub values: Vec<i64>,
    /// The raw ids that came last, oldest first; only the newest `known` mean anything, the rest are 0, and so is what
    /// stood under a mask.
    pub raw: Vec<i64>,
    /// How many raw ids are known, at most N - 1.
    pub known: usize,
    /// How many of the values the next token can reach.
    pub run: usize,
    /// The segment of the last token, once one was named; wide enough to tell signed numbers from unsigned ones.
    pub segment: Option<i128>,
}

impl RowState {
    /// Nothing seen yet.
    pub fn new(max_order: usize, fill: i64) -> Self {
        let reach = max_order - 1;
        Self { values: vec![fill; reach], raw: vec![0; reach], known: 0, run: 0, segment: None }
    }

    /// Takes on what a walk over the first `count` tokens of `row` left behind.
    pub fn take(
        &mut self,
        (values, run, segment): (&[i64], usize, Option<i128>),
        places: &Places,
        row: usize,
        count: usize,
    ) {
        self.values.copy_from_slice(values);
        (self.run, self.segment) = (run, segment);
        let reach = self.raw.len();
        let new = count.min(reach);
        self.raw.rotate_left(new);
        let raw = &mut self.raw[reach - new..];
        places.ids.load(row, count - new, raw);
        if let Some(mask) = places.mask {
            let mut live = [0; MAX_ORDER];
            mask.load_flags(row, count - new, &mut live[..new]);
            raw.iter_mut().zip(live).filter(|&(_, live)| live == 0).for_each(|(id, _)| *id = 0);
        }
        self.known = (self.known + new).min(reach);
    }

    /// Takes on values that are compressed already, oldest first; the row must be new.
    pub fn take_compressed(&mut self, values: &[i64]) {
        let reach = self.values.len();
        let new = values.len().min(reach);
        self.values[reach - new..].copy_from_slice(&values[values.len() - new..]);
        self.run = new;
    }
}

/// The states of a batch's rows, for one layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashState {
    /// One per row.
    pub rows: Vec<RowState>,
    /// The layout's digest: a state of another layout is refused.
    pub layout: String,
    /// N - 1.
    pub reach: usize,
    /// The layout's fill.
    pub fill: i64,
}

impl HashState {
    /// A state of `batch` rows that has seen nothing.
    pub fn new(batch: usize, max_order: usize, fill: i64, layout: String) -> Self {
        Self { rows: vec![RowState::new(max_order, fill); batch], layout, reach: max_order - 1, fill }
    }

    /// The rows that `index` names, copied in that order.
    pub fn select(&self, index: &[i64]) -> Result<Self> {
        let row = |&i: &i64| {
            let row = usize::try_from(i).ok().and_then(|i| self.rows.get(i)).cloned();
            row.ok_or(Error::Row { row: i, rows: self.rows.len() })
        };
        Ok(self.with_rows(index.iter().map(row).collect::<Result<_>>()?))
    }

    /// A state of the same layout with other rows.
    pub fn with_rows(&self, rows: Vec<RowState>) -> Self {
        Self { rows, layout: self.layout.clone(), reach: self.reach, fill: self.fill }
    }
}
