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

use super::block::{Rows, Window};
use super::plan::LayerPlan;
use crate::{Error, Result};

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

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

/// An integer type of rows: `i32` or `i64`, and no other.
pub trait Row: sealed::Sealed + Copy + Send + Sync + Default + 'static {
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

/// The kernel in use: the fastest one, or the one that `ENGRAM_FAST_KERNEL` names. A name that is not available is an
/// error, so that a forced kernel can never silently be another one.
pub fn active() -> Result<Kernel> {
    static FORCED: OnceLock<Option<String>> = OnceLock::new();
    match FORCED.get_or_init(|| std::env::var("ENGRAM_FAST_KERNEL").ok()).as_deref() {
        None | Some("") => Ok(available()[0]),
        Some(name) => named("ENGRAM_FAST_KERNEL", name),
    }
}

/// The kernel of that name; `setting` is the argument or the variable that names it.
pub fn named(setting: &'static str, name: &str) -> Result<Kernel> {
    let kernels = available();
    kernels.iter().find(|kernel| kernel.name == name).copied().ok_or_else(|| Error::Kernel {
        setting,
        name: name.into(),
        available: kernels.iter().map(|kernel| kernel.name).collect(),
    })
}
