//! What passes between the stages of a block: its window, its mixes, the place of its rows.

use std::marker::PhantomData;

use crate::layout::MAX_ORDER;

/// Tokens per block, at most: `MAX_ORDER` arrays of them stay in the first-level cache.
pub const BLOCK: usize = 256;
/// Tokens per block of a result that is streamed, at most. Stores around the caches still drain while the next block is
/// read, but no more of them than the processor has room for: of a million tokens, one took 2.9 ns per layer, in whole
/// blocks 3.6. A result that stays in the caches is a tenth faster in whole blocks.
pub const STREAMED_BLOCK: usize = 64;
/// Room behind a block, so that kernels may read whole vectors of tokens from every view.
pub const SLACK: usize = 8;

/// A stretch of one row within a block.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Row of the batch.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// The stretch's first token, counted within the block.
    pub at: usize,
    /// Tokens.
    pub len: usize,
}

/// The place of a refused token id in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// Row of the batch.
    pub row: usize,
    /// Column.
    pub col: usize,
}

/// The window of a block: one array per position of the window, `N` of them, each of `len` values and readable up to the
/// next multiple of eight. It borrows the buffers of its walk, which cannot go on while it lives.
pub struct Window<'a> {
    pub(super) views: [*const i64; MAX_ORDER],
    /// Tokens, at most [`BLOCK`].
    pub len: usize,
    pub(super) mixes: *mut Mixes,
    buffers: PhantomData<&'a mut Mixes>,
}

impl<'a> Window<'a> {
    /// The window of `len` tokens whose views are the first values of `views`, in the window's order; the last view fills
    /// the places past N, which nothing reads.
    ///
    /// # Panics
    /// A view is shorter than `len` rounded up to the next multiple of eight; there is no view.
    pub fn new(views: impl IntoIterator<Item = &'a [i64]>, len: usize, mixes: &'a mut Mixes) -> Self {
        let mut pointers = [std::ptr::null(); MAX_ORDER];
        for (pointer, view) in pointers.iter_mut().zip(views) {
            assert!(view.len() >= len.next_multiple_of(SLACK), "a view is shorter than its block");
            *pointer = view.as_ptr();
        }
        Self { views: pointers, len, mixes, buffers: PhantomData }
    }

    /// The tokens from `at` on, `len` of them.
    ///
    /// # Panics
    /// They do not lie in the window.
    pub fn part(&mut self, at: usize, len: usize) -> Window<'_> {
        assert!(at + len <= self.len, "a part lies in its window");
        // A view past N is null and never read; an address computed from it without a load is harmless.
        let views = self.views.map(|view| view.wrapping_add(at));
        Window { views, len, mixes: self.mixes, buffers: PhantomData }
    }
}

/// The mixes of a block by order: as doubles, and their low halves.
pub struct Mixes {
    pub(super) doubles: [[f64; BLOCK]; MAX_ORDER],
    pub(super) low: [[u32; BLOCK]; MAX_ORDER],
}

impl Default for Mixes {
    fn default() -> Self {
        Self { doubles: [[0.0; BLOCK]; MAX_ORDER], low: [[0; BLOCK]; MAX_ORDER] }
    }
}

/// The place of a block's rows: token `t`, column `c` at `data + t * stride + c`, in elements.
#[derive(Clone, Copy)]
pub struct Rows<T> {
    /// The first token's first column.
    pub data: *mut T,
    /// Elements from one token to the next.
    pub stride: usize,
    /// Whether the result is too large for the caches, so that stores had better go around them; a fence follows.
    pub stream: bool,
}
