//! The window: which earlier tokens each position sees.
//!
//! One counter per position says it all: `run`, the number of consecutive reachable tokens that end here, itself
//! included. It is 0 where the mask says so, 1 at the start of a row or segment and after a boundary token, and one more
//! than at the position before everywhere else. Look-back `k` reads the token where `k < run`, and the fill otherwise.
//!
//! [`Walk`] goes through the tokens in blocks. Before each block the history (the `N - 1` values before it) is canonical:
//! what cannot be reached holds the fill. So a block without a cut, the usual one, needs no counters at all: its window is
//! `N` shifted views of one buffer. Only a block with a cut is written out.

use super::block::{BLOCK, Mixes, Part, Refused, SLACK, STREAMED_BLOCK, Window};
use super::state::RowState;
use crate::ids::Places;
use crate::layout::MAX_ORDER;
use crate::token_map::Lookup;

/// Room for the history before a block.
const PAD: usize = MAX_ORDER;

/// Buffers of one thread; made once and reused.
pub struct Scratch {
    raw: [i64; BLOCK],
    values: [i64; PAD + BLOCK + SLACK],
    segment: [i64; BLOCK],
    live: [u8; BLOCK],
    cut: [u8; BLOCK],
    run: [u8; BLOCK],
    written: [[i64; BLOCK + SLACK]; MAX_ORDER],
    parts: Vec<Part>,
    mixes: Mixes,
}

impl Scratch {
    /// Zeroed buffers on the heap.
    pub fn new() -> Box<Self> {
        Box::new(Self {
            raw: [0; BLOCK],
            values: [0; PAD + BLOCK + SLACK],
            segment: [0; BLOCK],
            live: [0; BLOCK],
            cut: [0; BLOCK],
            run: [0; BLOCK],
            written: [[0; BLOCK + SLACK]; MAX_ORDER],
            parts: Vec::with_capacity(BLOCK),
            mixes: Mixes::default(),
        })
    }
}

const START: u8 = 1;
const DEAD: u8 = 2;

/// What the window stage knows of a layout.
#[derive(Clone, Debug)]
pub struct WindowRule {
    /// N.
    pub max_order: usize,
    /// What an unreachable look-back reads.
    pub fill: i64,
    /// Raw ids after which the look-back stops.
    pub boundary_ids: Vec<i64>,
    /// Whether the views run from the oldest token to the current one.
    pub reversed: bool,
}

/// Walks over tokens in order, block by block.
pub struct Walk<'a> {
    rule: &'a WindowRule,
    lookup: &'a Lookup,
    places: &'a Places<'a>,
    states: Option<&'a [RowState]>,
    scratch: &'a mut Scratch,
    /// Where the next block begins.
    row: usize,
    col: usize,
    /// The counter behind the last token of the block, at most N - 1: more cannot be seen.
    run: usize,
    segment: Option<i128>,
    len: usize,
    written_out: bool,
    /// Blocks of several whole rows instead of stretches of one.
    packed: bool,
}

impl<'a> Walk<'a> {
    /// Whether blocks hold several whole rows each: rows are then never cut, so walks must begin at a row's start.
    pub fn packs_rows(shape: [usize; 2]) -> bool {
        // A block of either size must hold at least one row.
        shape[0] > 1 && shape[1] <= STREAMED_BLOCK
    }

    /// A walk about to read column `col` of `row`; the history comes from the tokens, and the state, before it. `col`
    /// may be the row's length: the walk then stands behind its last token.
    pub fn start(
        rule: &'a WindowRule,
        lookup: &'a Lookup,
        places: &'a Places<'a>,
        states: Option<&'a [RowState]>,
        scratch: &'a mut Scratch,
        [row, col]: [usize; 2],
    ) -> Result<Self, Refused> {
        let packed = Self::packs_rows(places.ids.shape());
        let (len, run, segment, written_out) = (0, 0, None, false);
        let mut walk =
            Self { rule, lookup, places, states, scratch, row, col: 0, run, segment, len, written_out, packed };
        walk.enter_row(row);
        if col > 0 {
            // Tokens further back are out of sight, and the counter saturates within the look-back.
            let behind = col.min((rule.max_order - 1).max(1));
            if behind < col {
                walk.run = 0;
                walk.hide_unreachable();
            }
            walk.col = col - behind;
            walk.load_stretch(behind)?;
            walk.settle();
        }
        Ok(walk)
    }

    /// The next block of at most `limit` tokens: its length. Views and parts hold until the next call.
    pub fn next_block(&mut self, limit: usize) -> Result<usize, Refused> {
        self.settle();
        let [rows, cols] = self.places.ids.shape();
        if self.packed {
            let count = (BLOCK.min(limit) / cols).min(rows - self.row);
            self.load_rows(count)?;
        } else {
            if self.col == cols {
                (self.row, self.col) = (self.row + 1, 0);
            }
            if self.col == 0 {
                self.enter_row(self.row);
            }
            self.load_stretch(BLOCK.min(limit).min(cols - self.col))?;
        }
        Ok(self.len)
    }

    /// The window of the block, and the stretches of rows that the block consists of.
    pub fn block(&mut self) -> (Window<'_>, &[Part]) {
        let n = self.rule.max_order;
        let Scratch { values, written, parts, mixes, .. } = &mut *self.scratch;
        let (written, values) = (&*written, &*values);
        let (reversed, written_out) = (self.rule.reversed, self.written_out);
        let views = (0..n).map(move |i| {
            let k = if reversed { n - 1 - i } else { i };
            if written_out { &written[k][..] } else { &values[PAD - k..] }
        });
        (Window::new(views, self.len, mixes), parts)
    }

    /// What a walk leaves behind: values oldest first, how many of them are reachable, and the segment.
    pub fn history(&self) -> (&[i64], usize, Option<i128>) {
        debug_assert_eq!(self.len, 0);
        (&self.scratch.values[PAD + 1 - self.rule.max_order..PAD], self.run, self.segment)
    }

    /// Puts the history of a row's start before the block.
    fn enter_row(&mut self, row: usize) {
        match self.states {
            None => (self.run, self.segment) = (0, None),
            Some(states) => {
                let state = &states[row];
                self.scratch.values[PAD + 1 - self.rule.max_order..PAD].copy_from_slice(&state.values);
                (self.run, self.segment) = (state.run, state.segment);
            }
        }
        self.hide_unreachable();
    }

    fn hide_unreachable(&mut self) {
        let history = PAD + 1 - self.rule.max_order..PAD;
        let reachable = history.end - self.run;
        self.scratch.values[history.start..reachable].fill(self.rule.fill);
    }

    /// Moves the end of the block that was read in front of the next one.
    fn settle(&mut self) {
        if self.len == 0 {
            return;
        }
        let reach = self.rule.max_order - 1;
        let end = PAD + self.len;
        // In this order: behind a short block the two stretches overlap.
        for back in (1..=reach).rev() {
            self.scratch.values[PAD - back] = self.scratch.values[end - back];
        }
        self.len = 0;
        self.hide_unreachable();
    }

    /// A block that is a stretch of the current row.
    fn load_stretch(&mut self, len: usize) -> Result<(), Refused> {
        let (row, col) = (self.row, self.col);
        let cut = self.load(Part { row, col, at: 0, len })?;
        self.scratch.parts.clear();
        self.scratch.parts.push(Part { row, col, at: 0, len });
        let reach = self.rule.max_order - 1;
        if cut {
            self.count_runs(0, len);
            self.write_out(len);
        } else {
            self.run = (self.run + len).min(reach);
        }
        self.written_out = cut;
        if self.ends_at_boundary(len - 1) {
            self.run = 0;
        }
        self.col += len;
        self.len = len;
        Ok(())
    }

    /// A block of `count` whole rows.
    fn load_rows(&mut self, count: usize) -> Result<(), Refused> {
        let len = self.places.ids.shape()[1];
        self.scratch.parts.clear();
        for i in 0..count {
            let part = Part { row: self.row + i, col: 0, at: i * len, len };
            (self.run, self.segment) = match self.states {
                None => (0, None),
                Some(states) => (states[part.row].run, states[part.row].segment),
            };
            if !self.load(part)? {
                self.scratch.cut[part.at..part.at + len].fill(0);
            }
            self.count_runs(part.at, len);
            self.scratch.parts.push(part);
        }
        self.write_out(count * len);
        if let Some(states) = self.states {
            self.look_into(states, count);
        }
        self.written_out = true;
        self.row += count;
        self.len = count * len;
        Ok(())
    }

    /// Reads one part: values, and where the look-back is cut. Says whether it is anywhere.
    fn load(&mut self, part: Part) -> Result<bool, Refused> {
        let Part { row, col, at, len } = part;
        let Places { ids, mask, segment_ids, cu_seqlens } = self.places;
        let s = &mut *self.scratch;
        let values = &mut s.values[PAD + at..PAD + at + len];
        let usual = self.lookup.load(ids, row, col, values);
        let no_boundary = self.rule.boundary_ids.is_empty();
        let uncut = mask.is_none() && segment_ids.is_none() && cu_seqlens.is_none() && no_boundary;
        if usual && uncut {
            return Ok(false);
        }
        let raw = &mut s.raw[at..at + len];
        if !usual || !no_boundary {
            ids.load(row, col, raw);
        }
        let live = mask.as_ref().map(|mask| {
            let live = &mut s.live[at..at + len];
            mask.load_flags(row, col, live);
            &*live
        });
        if !usual && let Err(i) = self.lookup.apply(raw, live, ids.may_wrap(), values) {
            return Err(Refused { row, col: col + i });
        }
        if uncut {
            return Ok(false);
        }
        let cut = &mut s.cut[at..at + len];
        cut.fill(0);
        if let Some(segment_ids) = segment_ids {
            let segment = &mut s.segment[..len];
            segment_ids.load(row, col, segment);
            cut[0] = u8::from(self.segment.is_some_and(|before| before != segment_ids.exactly(segment[0])));
            for i in 1..len {
                cut[i] = u8::from(segment[i] != segment[i - 1]);
            }
            self.segment = Some(segment_ids.exactly(segment[len - 1]));
        }
        if let Some(starts) = cu_seqlens {
            let first = starts.partition_point(|&start| start < col as i64);
            for &start in starts[first..].iter().take_while(|&&start| start < (col + len) as i64) {
                cut[start as usize - col] = START;
            }
        }
        for &boundary in &self.rule.boundary_ids {
            for (cut, &id) in cut[1..].iter_mut().zip(&*raw) {
                *cut |= u8::from(id == boundary);
            }
        }
        if let Some(live) = live {
            for (cut, &live) in cut.iter_mut().zip(live) {
                *cut |= DEAD * (1 - live);
            }
        }
        Ok(cut.iter().fold(0, |any, &cut| any | cut) != 0)
    }

    /// The counter of each position from the cuts.
    fn count_runs(&mut self, at: usize, len: usize) {
        let n = self.rule.max_order as u8;
        let mut run = self.run as u8;
        let s = &mut *self.scratch;
        for (out, &cut) in s.run[at..at + len].iter_mut().zip(&s.cut[at..at + len]) {
            let before = if cut == 0 { run } else { 0 };
            run = if cut >= DEAD { 0 } else { (before + 1).min(n) };
            *out = run;
        }
        self.run = usize::from(run.min(n - 1));
    }

    /// The window of each position from the counters; look-backs must lie in front of them.
    fn write_out(&mut self, len: usize) {
        let s = &mut *self.scratch;
        for (k, out) in s.written[..self.rule.max_order].iter_mut().enumerate() {
            let values = &s.values[PAD - k..PAD - k + len];
            for ((out, &value), &run) in out[..len].iter_mut().zip(values).zip(&s.run[..len]) {
                *out = if usize::from(run) > k { value } else { self.rule.fill };
            }
        }
    }

    /// The first tokens of packed rows look back into their states, not into the row before.
    fn look_into(&mut self, states: &[RowState], count: usize) {
        let reach = self.rule.max_order - 1;
        let s = &mut *self.scratch;
        for part in &s.parts[..count] {
            let history = &states[part.row].values;
            for i in 0..part.len.min(reach) {
                let run = usize::from(s.run[part.at + i]);
                for k in i + 1..run {
                    s.written[k][part.at + i] = history[reach + i - k];
                }
            }
        }
    }

    fn ends_at_boundary(&self, last: usize) -> bool {
        self.run > 0 && self.rule.boundary_ids.contains(&self.scratch.raw[last])
    }
}
