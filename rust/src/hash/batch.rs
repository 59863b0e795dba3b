//! The batch driver: checks, splits the tokens over threads, and takes each block through the stages.

use std::cell::RefCell;
use std::sync::{Mutex, OnceLock};

use super::block::{BLOCK, Refused, Rows, STREAMED_BLOCK};
use super::kernels::{self, Kernel, Row};
use super::plan::LayerPlan;
use super::state::{HashState, RowState};
use super::window::{Scratch, Walk, WindowRule};
use crate::error::Place;
use crate::ids::Places;
use crate::layout::MAX_ORDER;
use crate::support::pointers::SharedMut;
use crate::support::pool;
use crate::token_map::Lookup;
use crate::{Error, Result};

/// Where the layers stand among the axes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerAxis {
    /// `[L, B, T, C]`.
    First,
    /// `[B, L, T, C]`.
    AfterBatch,
    /// `[B, T, L, C]`.
    BeforeColumns,
}

/// Distances in the result, in elements.
#[derive(Clone, Copy, Debug)]
struct Strides {
    layer: usize,
    row: usize,
    token: usize,
}

impl Strides {
    /// Those of a C-contiguous result for ids of `shape`.
    fn new(axis: LayerAxis, layers: usize, [rows, cols]: [usize; 2], columns: usize) -> Self {
        match axis {
            LayerAxis::First => Self { layer: rows * cols * columns, row: cols * columns, token: columns },
            LayerAxis::AfterBatch => Self { layer: cols * columns, row: layers * cols * columns, token: columns },
            LayerAxis::BeforeColumns => Self { layer: columns, row: cols * layers * columns, token: layers * columns },
        }
    }
}

/// One call, checked but for its ids: shapes agree, masks hold 0 and 1, `cu_seqlens` is sound, rows fit their type.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The tokens.
    pub places: Places<'a>,
    /// What came before each row, where something did.
    pub states: Option<&'a [RowState]>,
    /// Indices into the layout's layers, in the order of the result.
    pub layers: &'a [usize],
    /// Whether rows carry their column's offset.
    pub add_offsets: bool,
    /// The layers' place in the result.
    pub axis: LayerAxis,
    /// At most this many.
    pub threads: usize,
    /// Whether to look at every id before the first row is written, so that a refused id leaves the result untouched.
    pub check_first: bool,
    /// Whether the caller gave a flat array, for error messages.
    pub flat: bool,
}

/// Tokens per piece of work: few, so that a helper that woke late still finds its share.
const PIECE: usize = 4 * BLOCK;
/// The same of a result that is streamed: many, as each piece ends by waiting for its stores.
const STREAMED_PIECE: usize = 16 * BLOCK;
/// Looking at fewer ids than this is done before a second thread has woken.
const CHECKS_WORTH_SHARING: usize = 1 << 18;
/// Results of more bytes than this, whose tokens follow each other without a gap, are stored around the caches.
/// `ENGRAM_FAST_STREAM_BYTES` sets another number. A value that does not parse is an error, so a measurement never silently
/// uses the default.
pub(super) fn stream_bytes() -> Result<usize> {
    static SET: OnceLock<Option<String>> = OnceLock::new();
    read_bytes(SET.get_or_init(|| std::env::var("ENGRAM_FAST_STREAM_BYTES").ok()).as_deref())
}

fn read_bytes(set: Option<&str>) -> Result<usize> {
    match set {
        None | Some("") => Ok(STREAM_BYTES),
        Some(bytes) => {
            bytes.parse().map_err(|_| Error::Bytes { variable: "ENGRAM_FAST_STREAM_BYTES", value: bytes.into() })
        }
    }
}

/// On Zen 4 with 32 MiB of third-level cache: at 16 MiB plain stores take 3.0 ns per token and layer (three tokens, eight
/// heads) and streamed ones 3.1 to 3.6, at 32 MiB plain ones 5.0, streamed ones the same as before. Only where tokens
/// follow each other without a gap: two layers of three orders side by side in each token, 48 MiB, take 8.2 ns with
/// plain stores and 26 with streamed ones, since a line of memory is then filled in parts that lie far apart in time.
const STREAM_BYTES: usize = 20 << 20;

/// Ends a piece of work that streams.
struct Fence;

impl Drop for Fence {
    fn drop(&mut self) {
        kernels::fence();
    }
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Scratch::new());
}

/// A layout's numbers in the form that the stages read.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The first stage.
    pub lookup: Lookup,
    /// The second.
    pub rule: WindowRule,
    /// The third: one per layer, without and with offsets.
    pub plans: [Vec<LayerPlan>; 2],
    /// Columns of every layer.
    pub columns: usize,
    /// The kernel in use.
    pub kernel: Kernel,
    /// Results of more bytes than this are stored around the caches.
    pub stream_bytes: usize,
}

impl Engine {
    fn plan(&self, layer: usize, add_offsets: bool) -> &LayerPlan {
        &self.plans[usize::from(add_offsets)][layer]
    }

    /// Hashes a request into `out`.
    ///
    /// # Errors
    /// The first refused id in order of position, whatever the number of threads.
    ///
    /// # Safety
    /// `out` is writeable, holds layers times tokens times columns elements, and overlaps nothing that is read.
    pub unsafe fn run<T: Row>(&self, request: &Request, out: *mut T) -> Result<()> {
        let [rows, cols] = request.places.ids.shape();
        let tokens = rows * cols;
        if tokens == 0 {
            return Ok(());
        }
        if request.layers.is_empty() {
            // Nothing is hashed, so nothing else would look at the ids.
            return self
                .check(&request.places, 0, tokens)
                .map_err(|refused| self.refusal(&request.places, request.flat, refused));
        }
        let size = tokens * request.layers.len() * self.columns;
        let threads = if tokens < pool::WORTH_SHARING { 1 } else { request.threads };
        // Rows that are packed into blocks must not be cut between pieces.
        let unit = if Walk::packs_rows([rows, cols]) { cols } else { 1 };
        let strides = Strides::new(request.axis, request.layers.len(), [rows, cols], self.columns);
        let stream = strides.token == self.columns && size * size_of::<T>() > self.stream_bytes;
        let piece = match (threads, stream) {
            (1, _) => tokens,
            (_, false) => PIECE.div_ceil(unit) * unit,
            (_, true) => STREAMED_PIECE.div_ceil(unit) * unit,
        };
        let pieces = tokens.div_ceil(piece);
        if request.check_first && !self.lookup.accepts_all(&request.places.ids) {
            let threads = if tokens < CHECKS_WORTH_SHARING { 1 } else { threads };
            self.in_pieces(request, pieces, threads, |i| {
                self.check(&request.places, i * piece, tokens.min((i + 1) * piece))
            })?;
        }
        let out = SharedMut::new(out);
        self.in_pieces(request, pieces, threads, |i| {
            // SAFETY: pieces are disjoint, and the caller vouches for the whole.
            unsafe { self.hash_piece(request, strides, [i * piece, tokens.min((i + 1) * piece)], out.at(0), stream) }
        })
    }

    /// Runs `work` on every piece; the refusal of the earliest one becomes the error.
    fn in_pieces(
        &self,
        request: &Request,
        pieces: usize,
        threads: usize,
        work: impl Fn(usize) -> std::result::Result<(), Refused> + Sync,
    ) -> Result<()> {
        let first: Mutex<Option<Refused>> = Mutex::new(None);
        pool::for_each(pieces, threads, |i| {
            if let Err(refused) = work(i) {
                let mut first = first.lock().expect("no code that can panic holds this lock");
                *first = Some(first.map_or(refused, |other| other.min(refused)));
            }
        });
        match first.into_inner().expect("as above") {
            None => Ok(()),
            Some(refused) => Err(self.refusal(&request.places, request.flat, refused)),
        }
    }

    fn refusal(&self, places: &Places, flat: bool, Refused { row, col }: Refused) -> Error {
        Error::TokenId {
            id: places.ids.get(row, col),
            place: if flat { Place::Position(col) } else { Place::Cell { row, column: col } },
            accepted: self.lookup.accepted(),
        }
    }

    /// Looks at the ids of tokens `from..to` and writes nothing.
    fn check(&self, places: &Places, mut from: usize, to: usize) -> std::result::Result<(), Refused> {
        let Places { ids, mask, .. } = *places;
        let cols = ids.shape()[1];
        let (mut raw, mut live) = ([0; BLOCK], [0; BLOCK]);
        while from < to {
            let (row, col) = (from / cols, from % cols);
            let len = BLOCK.min(to - from).min(cols - col);
            from += len;
            // The mask is looked at where some id needs its excuse, which is seldom.
            if self.lookup.takes_all(&ids, row, col, len) {
                continue;
            }
            ids.load(row, col, &mut raw[..len]);
            if let Some(mask) = mask {
                mask.load_flags(row, col, &mut live[..len]);
            }
            let live = mask.map(|_| &live[..len]);
            if let Some(i) = self.lookup.first_refused(&raw[..len], live, ids.may_wrap()) {
                return Err(Refused { row, col: col + i });
            }
        }
        Ok(())
    }

    /// # Safety
    /// See [`Engine::run`]; the tokens `from..to` are this call's alone.
    unsafe fn hash_piece<T: Row>(
        &self,
        request: &Request,
        strides: Strides,
        [from, to]: [usize; 2],
        out: *mut T,
        stream: bool,
    ) -> std::result::Result<(), Refused> {
        let cols = request.places.ids.shape()[1];
        let Strides { layer: layer_stride, row: row_stride, token: token_stride } = strides;
        let rows_fn = T::rows_fn(&self.kernel);
        SCRATCH.with_borrow_mut(|scratch| {
            let start = [from / cols, from % cols];
            let mut walk = Walk::start(&self.rule, &self.lookup, &request.places, request.states, scratch, start)?;
            // Also after a refused id: memory that is given back must not be written to any more.
            let _fence = stream.then_some(Fence);
            let most = if stream { STREAMED_BLOCK } else { BLOCK };
            let mut left = to - from;
            while left > 0 {
                let len = walk.next_block(left.min(most))?;
                left -= len;
                let (mut window, parts) = walk.block();
                // Where rows follow each other without a gap, a block of several is one stretch.
                let joined = row_stride == cols * token_stride;
                let stretches = if joined { &parts[..1] } else { parts };
                for (i, &layer) in request.layers.iter().enumerate() {
                    let plan = self.plan(layer, request.add_offsets);
                    for part in stretches {
                        let len = if joined { len } else { part.len };
                        let at = i * layer_stride + part.row * row_stride + part.col * token_stride;
                        // SAFETY: the part lies in the block and its rows in the result; the kernel was chosen for
                        // this processor.
                        unsafe {
                            let rows = Rows { data: out.add(at), stride: token_stride, stream };
                            if len == window.len {
                                rows_fn(plan, &window, rows);
                            } else {
                                rows_fn(plan, &window.part(part.at, len), rows);
                            }
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Moves each state past the first `count(b)` tokens of its row, which [`Engine::run`] has accepted.
    ///
    /// # Errors
    /// A refused id among the last tokens of a row; rows before it have moved already.
    pub fn advance(
        &self,
        states: &mut [RowState],
        places: &Places,
        flat: bool,
        count: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let reach = self.rule.max_order - 1;
        let mut values = [0; MAX_ORDER];
        SCRATCH.with_borrow_mut(|scratch| {
            for row in 0..states.len() {
                let count = count(row);
                if count == 0 {
                    continue;
                }
                let walk = Walk::start(&self.rule, &self.lookup, places, Some(states), scratch, [row, count])
                    .map_err(|refused| self.refusal(places, flat, refused))?;
                let (history, run, segment) = walk.history();
                values[..reach].copy_from_slice(history);
                states[row].take((&values[..reach], run, segment), places, row, count);
            }
            Ok(())
        })
    }

    /// The states after the first `count(b)` tokens of each row `b`, which are checked first.
    ///
    /// # Errors
    /// The first refused id.
    pub fn feed(
        &self,
        states: &HashState,
        places: &Places,
        flat: bool,
        count: impl Fn(usize) -> usize,
    ) -> Result<HashState> {
        let cols = places.ids.shape()[1];
        let mut after = states.clone();
        for row in 0..states.rows.len() {
            self.check(places, row * cols, row * cols + count(row))
                .map_err(|refused| self.refusal(places, flat, refused))?;
        }
        self.advance(&mut after.rows, places, flat, count)?;
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_a_number_or_an_error() {
        assert_eq!([read_bytes(None).unwrap(), read_bytes(Some("")).unwrap()], [STREAM_BYTES; 2]);
        assert_eq!(read_bytes(Some("0")).unwrap(), 0);
        for wrong in ["16M", "-1", "1e6"] {
            assert!(read_bytes(Some(wrong)).unwrap_err().to_string().contains(wrong));
        }
    }
}
