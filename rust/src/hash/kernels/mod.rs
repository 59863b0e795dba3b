//! Kernels: from a block's window to its rows. One specification (`scalar`), one signature, one choice per process.

#[cfg(target_arch = "aarch64")]
mod neon;
pub mod scalar;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use super::plan::LayerPlan;
use super::window::BLOCK;
use crate::layout::MAX_ORDER;

/// The window of a block: one array per position of the window, `N` of them, each of `len` values and readable up to the next
/// multiple of eight.
#[derive(Clone, Copy)]
pub struct Window {
    /// The arrays.
    pub views: [*const i64; MAX_ORDER],
    /// Tokens, at most [`BLOCK`].
    pub len: usize,
    /// Memory for the stage between, one caller's at a time.
    pub mixes: *mut Mixes,
}

/// The mixes of a block by order: as doubles, and their low halves.
pub struct Mixes {
    doubles: [[f64; BLOCK]; MAX_ORDER],
    low: [[u32; BLOCK]; MAX_ORDER],
}

impl Default for Mixes {
    fn default() -> Self {
        Self { doubles: [[0.0; BLOCK]; MAX_ORDER], low: [[0; BLOCK]; MAX_ORDER] }
    }
}

impl Window {
    /// The tokens from `at` on, `len` of them.
    ///
    /// # Safety
    /// `at + len` must not exceed the length of this window.
    pub unsafe fn part(&self, at: usize, len: usize) -> Self {
        // SAFETY: the caller stays within the arrays; views past N are never read but stay within their buffers too.
        Self { views: self.views.map(|view| unsafe { view.add(at) }), len, mixes: self.mixes }
    }
}

/// Where the rows of a block go: token `t`, column `c` at `data + t * stride + c`, in elements.
#[derive(Clone, Copy)]
pub struct Rows<T> {
    /// The first token's first column.
    pub data: *mut T,
    /// Elements from one token to the next.
    pub stride: usize,
    /// Whether the result is too large to stay in the caches, so that stores had better go around them; [`fence`] follows.
    pub stream: bool,
}

/// Hashes a block for one layer.
///
/// # Safety
/// Each of the first N views holds `window.len` values and is readable up to the next multiple of eight, `window.mixes` is
/// valid and nobody else's, `rows` has room for `window.len` tokens of the plan's columns, and
/// the processor has what the kernel's name says.
pub type RowsFn<T> = unsafe fn(plan: &LayerPlan, window: &Window, rows: Rows<T>);

/// A set of functions for one instruction set. Nobody outside can make one, so each that there is can run here: see
/// [`available`].
#[derive(Clone, Copy)]
pub struct Kernel {
    /// "scalar", "avx2", …
    pub name: &'static str,
    /// Rows as 32-bit numbers; they must fit.
    pub(in crate::hash) rows_i32: RowsFn<i32>,
    /// Rows as 64-bit numbers.
    pub(in crate::hash) rows_i64: RowsFn<i64>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// An integer type that rows are written in.
pub trait Row: Copy + Send + Sync + Default + 'static {
    /// A remainder plus its column's offset; the caller has checked that the sum fits.
    fn from_remainder(r: i64, offset: Self) -> Self;
    /// The plan's padded offsets.
    fn offsets(plan: &LayerPlan) -> &[Self];
    /// The function of `kernel` for this type.
    fn rows_fn(kernel: &Kernel) -> RowsFn<Self>;
}

impl Row for i32 {
    #[inline(always)]
    fn from_remainder(r: i64, offset: Self) -> Self {
        (r as i32).wrapping_add(offset)
    }
    #[inline(always)]
    fn offsets(plan: &LayerPlan) -> &[Self] {
        &plan.offsets_i32
    }
    fn rows_fn(kernel: &Kernel) -> RowsFn<Self> {
        kernel.rows_i32
    }
}

impl Row for i64 {
    #[inline(always)]
    fn from_remainder(r: i64, offset: Self) -> Self {
        r.wrapping_add(offset)
    }
    #[inline(always)]
    fn offsets(plan: &LayerPlan) -> &[Self] {
        &plan.offsets
    }
    fn rows_fn(kernel: &Kernel) -> RowsFn<Self> {
        kernel.rows_i64
    }
}

/// Makes what kernels have streamed visible to other threads; called after the last block of a piece of work.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    x86::fence();
}

/// The kernels that this processor can run, fastest first; the last is always `scalar`.
pub fn available() -> &'static [Kernel] {
    static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
    AVAILABLE.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        let mut kernels = x86::available();
        #[cfg(target_arch = "aarch64")]
        let mut kernels = vec![neon::NEON];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let mut kernels = vec![];
        kernels.push(scalar::KERNEL);
        kernels
    })
}

/// The kernel in use: the fastest one, or the one that `ENGRAM_FAST_KERNEL` names. An unknown or unsupported name is an
/// error in words, so that a forced kernel can never silently be another one.
pub fn active() -> Result<Kernel, String> {
    static ACTIVE: OnceLock<Result<Kernel, String>> = OnceLock::new();
    ACTIVE.get_or_init(|| choose(std::env::var("ENGRAM_FAST_KERNEL").ok().as_deref())).clone()
}

fn choose(forced: Option<&str>) -> Result<Kernel, String> {
    let kernels = available();
    match forced {
        None | Some("") => Ok(kernels[0]),
        Some(name) => kernels.iter().find(|kernel| kernel.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = kernels.iter().map(|kernel| kernel.name).collect();
            format!("{name:?} is not a kernel this processor can run; it can run {}", names.join(", "))
        }),
    }
}
