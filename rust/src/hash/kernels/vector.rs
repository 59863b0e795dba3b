//! The vector kernels' one algorithm, over the operations that an instruction set offers for eight lanes.
//!
//! A block goes through two more stages after its window: mixes, eight tokens at a time, kept as doubles and as low
//! halves; then remainders, one token at a time, so that its columns are written together. In the usual case (orders from 2
//! on, heads a multiple of eight, moduli past 2^13) both are one loop: the mixes of eight tokens to come are made among the
//! remainders of eight others, so that they cost nothing while stores around the caches are on their way, and the constants of
//! all columns stay in registers. Other shapes take the stages one after the other.
//!
//! No closures, `map` or `from_fn` around operations: they do not inherit the instruction set of the function around them, and
//! where the compiler does not inline them every operation becomes a call (measured: ten times the time).

use std::mem::MaybeUninit;

use super::{Row, scalar};
use crate::hash::block::{Mixes, Rows, Window};
use crate::hash::plan::{LANES, LayerPlan, MixPlan, Modulus};

/// How rows are stored.
pub const PLAIN: u8 = 0;
/// Around the caches, in pieces of 16 bytes: NumPy aligns large arrays to no more.
pub const STREAM_16: u8 = 1;
/// Around the caches, in pieces of 32 bytes.
pub const STREAM_32: u8 = 2;

/// Eight lanes of an instruction set.
///
/// # Safety
/// Every function needs the processor to have that instruction set; pointers must be valid for eight elements unless said
/// otherwise. All are inlined into a function that enables the instruction set.
pub trait Lanes {
    /// Eight doubles, in an order of the implementation's choice.
    type F: Copy;
    /// Eight 32-bit numbers, in order.
    type U: Copy;
    /// Eight 64-bit numbers, in order.
    type X: Copy;

    /// Loads doubles.
    unsafe fn doubles(at: *const f64) -> Self::F;
    /// Eight times the same double.
    unsafe fn splat_double(x: f64) -> Self::F;
    /// The doubles of numbers below 2^31.
    unsafe fn to_doubles(x: Self::U) -> Self::F;
    /// The low halves of `x * inv + MAGIC`: quotients.
    unsafe fn quotients(x: Self::F, inv: Self::F) -> Self::U;
    /// Loads 32-bit numbers.
    unsafe fn words(at: *const u32) -> Self::U;
    /// Eight times the same number.
    unsafe fn splat_word(x: u32) -> Self::U;
    /// Wrapping sum.
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U;
    /// `r = x - q * p`, then the unsigned minimum of `r` and `r + p`. The moduli come negated: `x` is then the operand of a sum,
    /// and one that is eight times the same number can be read from memory by the instruction that adds it.
    unsafe fn residues(x: Self::U, q: Self::U, negated_p: Self::U) -> Self::U;

    /// Loads 64-bit numbers.
    unsafe fn longs(at: *const i64) -> Self::X;
    /// Eight times the same number.
    unsafe fn splat_long(x: i64) -> Self::X;
    /// Wrapping product.
    unsafe fn mul(a: Self::X, b: Self::X) -> Self::X;
    /// Exclusive or.
    unsafe fn xor(a: Self::X, b: Self::X) -> Self::X;
    /// Wrapping sum.
    unsafe fn add_longs(a: Self::X, b: Self::X) -> Self::X;
    /// The sign-extended low halves.
    unsafe fn narrow(x: Self::X) -> Self::X;
    /// Stores the numbers as doubles (rounded to nearest) and their low halves.
    unsafe fn store_mixes(x: Self::X, doubles: *mut f64, low: *mut u32);

    /// Stores eight 32-bit numbers the way that `HOW` says.
    unsafe fn store_words<const HOW: u8>(at: *mut i32, r: Self::U);
    /// Stores the first `n` of eight.
    unsafe fn store_some_words(at: *mut i32, r: Self::U, n: usize);
    /// Stores eight remainders plus offsets as 64-bit numbers the way that `HOW` says.
    unsafe fn store_longs<const HOW: u8>(at: *mut i64, r: Self::U, offsets: *const i64);
}

/// Rows as an element type stores them.
pub trait VectorRow: Row {
    /// Stores eight remainders, with the offsets of the padded column `c` where `ADD` says so.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn store<S: Lanes, const HOW: u8, const ADD: bool>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize);
    /// Stores the first `n` of eight.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn store_some<S: Lanes>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize, n: usize);
}

impl VectorRow for i32 {
    #[inline(always)]
    unsafe fn store<S: Lanes, const HOW: u8, const ADD: bool>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize) {
        // SAFETY: the caller's; `c` begins a whole vector of the padded arrays.
        unsafe {
            let row = if ADD { S::add(r, S::words(plan.offsets_i32.as_ptr().add(c).cast())) } else { r };
            S::store_words::<HOW>(at, row);
        }
    }
    #[inline(always)]
    unsafe fn store_some<S: Lanes>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize, n: usize) {
        // SAFETY: as above.
        unsafe { S::store_some_words(at, S::add(r, S::words(plan.offsets_i32.as_ptr().add(c).cast())), n) }
    }
}

impl VectorRow for i64 {
    #[inline(always)]
    unsafe fn store<S: Lanes, const HOW: u8, const ADD: bool>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize) {
        // Sixty-four bits are bound by their stores: the sum costs nothing, so it is always made.
        // SAFETY: the caller's; `c` begins a whole vector of the padded arrays.
        unsafe { S::store_longs::<HOW>(at, r, plan.offsets.as_ptr().add(c)) }
    }
    #[inline(always)]
    unsafe fn store_some<S: Lanes>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize, n: usize) {
        let mut all = [0; LANES];
        // SAFETY: as above; `n` elements are the caller's to write.
        unsafe {
            S::store_longs::<PLAIN>(all.as_mut_ptr(), r, plan.offsets.as_ptr().add(c));
            std::ptr::copy_nonoverlapping(all.as_ptr(), at, n);
        }
    }
}

/// See [`super::RowsFn`].
///
/// # Safety
/// That of [`super::RowsFn`] and of [`Lanes`].
#[inline(always)]
pub unsafe fn rows<S: Lanes, T: VectorRow>(plan: &LayerPlan, window: &Window, rows: Rows<T>) {
    // SAFETY: handed on from the caller.
    unsafe {
        match &plan.mix {
            _ if plan.modulus == Modulus::Division => scalar::rows(plan, window, rows),
            MixPlan::PerColumn { coefficients } => per_column::<S, T>(plan, coefficients, window, rows),
            MixPlan::Prefix { multipliers, orders } => match plan.usual {
                Some([2, 1]) => aligned::<S, T, 2, 1>(plan, multipliers, window, rows),
                Some([3, 1]) => aligned::<S, T, 3, 1>(plan, multipliers, window, rows),
                Some([4, 1]) => aligned::<S, T, 4, 1>(plan, multipliers, window, rows),
                Some([2, 2]) => aligned::<S, T, 2, 2>(plan, multipliers, window, rows),
                Some([3, 2]) => aligned::<S, T, 3, 2>(plan, multipliers, window, rows),
                _ => {
                    let mixes = &mut *window.mixes;
                    mix::<S>(plan.narrow, multipliers, orders, window, mixes);
                    any_shape::<S, T>(plan, orders.len(), mixes, window.len, rows);
                }
            },
        }
    }
}

/// Chooses how rows are stored.
#[inline(always)]
unsafe fn aligned<S: Lanes, T: VectorRow, const N: usize, const P: usize>(
    plan: &LayerPlan,
    multipliers: &[i64],
    window: &Window,
    rows: Rows<T>,
) {
    let bytes = rows.stride * size_of::<T>();
    // SAFETY: handed on from the caller.
    unsafe {
        match (rows.stream, (rows.data as usize | bytes) % 32, plan.has_offsets) {
            (true, 0, false) => fused::<S, T, STREAM_32, false, N, P>(plan, multipliers, window, rows),
            (true, 0, true) => fused::<S, T, STREAM_32, true, N, P>(plan, multipliers, window, rows),
            (true, 16, false) => fused::<S, T, STREAM_16, false, N, P>(plan, multipliers, window, rows),
            (true, 16, true) => fused::<S, T, STREAM_16, true, N, P>(plan, multipliers, window, rows),
            (_, _, false) => fused::<S, T, PLAIN, false, N, P>(plan, multipliers, window, rows),
            (_, _, true) => fused::<S, T, PLAIN, true, N, P>(plan, multipliers, window, rows),
        }
    }
}

/// The mixes of eight tokens for up to three orders.
#[repr(align(64))]
struct Eight {
    doubles: [[f64; LANES]; 3],
    low: [[u32; LANES]; 3],
}

/// Orders 2 to `N` with `P` vectors of heads each, one step per remainder.
#[inline(always)]
unsafe fn fused<S: Lanes, T: VectorRow, const HOW: u8, const ADD: bool, const N: usize, const P: usize>(
    plan: &LayerPlan,
    multipliers: &[i64],
    window: &Window,
    rows: Rows<T>,
) {
    // SAFETY: the padded arrays hold (N - 1) * P vectors; views can be read up to the next multiple of eight.
    unsafe {
        let mut splat = [S::splat_long(0); N];
        let mut k = 0;
        while k < N {
            splat[k] = S::splat_long(multipliers[k]);
            k += 1;
        }
        let mut inv = [[S::splat_double(0.0); P]; 3];
        let mut p = [[S::splat_word(0); P]; 3];
        let mut o = 0;
        while o < N - 1 {
            let mut v = 0;
            while v < P {
                inv[o][v] = S::doubles(plan.inv.as_ptr().add((o * P + v) * LANES));
                p[o][v] = S::words(plan.negated_p.as_ptr().add((o * P + v) * LANES));
                v += 1;
            }
            o += 1;
        }
        // A ring; not initialised, which would take longer than the mixes of a short block.
        let mut eights = MaybeUninit::<[Eight; 4]>::uninit();
        let eights = eights.as_mut_ptr().cast::<Eight>();
        mix_eight::<S, N>(&splat, plan.narrow, window, 0, eights);
        // Two groups ahead: loads from stores that are still on their way to the cache take a tenth more time.
        if window.len > LANES {
            mix_eight::<S, N>(&splat, plan.narrow, window, LANES, eights.add(1));
        }
        let mut t = 0;
        while t < window.len {
            if t + 2 * LANES < window.len {
                mix_eight::<S, N>(&splat, plan.narrow, window, t + 2 * LANES, eights.add((t / LANES + 2) % 4));
            }
            let now = eights.add(t / LANES % 4);
            // Not unrolled: with eight copies of the loop the result was slower, not faster.
            let count = (window.len - t).min(LANES);
            let mut out = rows.data.add(t * rows.stride);
            let mut i = 0;
            while i < count {
                let mut o = 0;
                while o < N - 1 {
                    let double = S::splat_double((*now).doubles[o][i]);
                    let low = S::splat_word((*now).low[o][i]);
                    let mut v = 0;
                    while v < P {
                        let c = (o * P + v) * LANES;
                        let r = S::residues(low, S::quotients(double, inv[o][v]), p[o][v]);
                        T::store::<S, HOW, ADD>(out.add(c), r, plan, c);
                        v += 1;
                    }
                    o += 1;
                }
                out = out.add(rows.stride);
                i += 1;
            }
            t += LANES;
        }
    }
}

/// The mixes of the tokens from `t` on for the orders 2 to `N`, each extending the last.
#[inline(always)]
unsafe fn mix_eight<S: Lanes, const N: usize>(
    multipliers: &[S::X; N],
    narrow: bool,
    window: &Window,
    t: usize,
    eight: *mut Eight,
) {
    // SAFETY: views can be read up to the next multiple of eight past the length; `eight` is the caller's, to be written.
    unsafe {
        let mut mix = S::mul(S::longs(window.views[0].add(t)), multipliers[0]);
        let mut k = 1;
        while k < N {
            mix = S::xor(mix, S::mul(S::longs(window.views[k].add(t)), multipliers[k]));
            let mix = if narrow { S::narrow(mix) } else { mix };
            S::store_mixes(mix, (&raw mut (*eight).doubles[k - 1]).cast(), (&raw mut (*eight).low[k - 1]).cast());
            k += 1;
        }
    }
}

/// The mixes of a block for any ascending orders.
#[inline(always)]
unsafe fn mix<S: Lanes>(narrow: bool, multipliers: &[i64], orders: &[usize], window: &Window, mixes: &mut Mixes) {
    // SAFETY: views can be read, and the arrays of mixes written, up to the next multiple of eight past the length.
    unsafe {
        for t in (0..window.len).step_by(LANES) {
            let mut mix = S::splat_long(0);
            let mut taken = 0;
            for (o, &order) in orders.iter().enumerate() {
                while taken < order {
                    let multiplier = S::splat_long(multipliers[taken]);
                    mix = S::xor(mix, S::mul(S::longs(window.views[taken].add(t)), multiplier));
                    taken += 1;
                }
                let mix = if narrow { S::narrow(mix) } else { mix };
                S::store_mixes(mix, mixes.doubles[o].as_mut_ptr().add(t), mixes.low[o].as_mut_ptr().add(t));
            }
        }
    }
}

/// Any number of heads, one step or two.
#[inline(always)]
unsafe fn any_shape<S: Lanes, T: VectorRow>(plan: &LayerPlan, orders: usize, mixes: &Mixes, len: usize, rows: Rows<T>) {
    // SAFETY: vectors begin within the padded arrays, and only columns of the plan are written.
    unsafe {
        for t in 0..len {
            for o in 0..orders {
                let double = S::splat_double(mixes.doubles[o][t]);
                let low = S::splat_word(mixes.low[o][t]);
                let out = rows.data.add(t * rows.stride + o * plan.group);
                group::<S, T>(plan, o * plan.padded_group, |_| (double, low), out);
            }
        }
    }
}

/// The columns of a group, whose numbers begin at `first` in the padded arrays; `mix` gives those of a vector.
#[inline(always)]
unsafe fn group<S: Lanes, T: VectorRow>(
    plan: &LayerPlan,
    first: usize,
    mix: impl Fn(usize) -> (S::F, S::U),
    out: *mut T,
) {
    // SAFETY: vectors begin within the padded arrays, and only columns of the plan are written.
    unsafe {
        for h in (0..plan.group).step_by(LANES) {
            let c = first + h;
            let (double, low) = mix(h);
            let step = |x: S::F, low: S::U, inv: &[f64], p: &[u32]| {
                let q = S::quotients(x, S::doubles(inv.as_ptr().add(c)));
                S::residues(low, q, S::words(p.as_ptr().add(c)))
            };
            let r = if plan.modulus == Modulus::Direct {
                step(double, low, &plan.inv, &plan.negated_p)
            } else {
                let r = step(double, low, &plan.inv_first, &plan.negated_p_first);
                step(S::to_doubles(r), r, &plan.inv, &plan.negated_p)
            };
            match plan.group - h {
                n if n >= LANES => T::store::<S, PLAIN, true>(out.add(h), r, plan, c),
                n => T::store_some::<S>(out.add(h), r, plan, c, n),
            }
        }
    }
}

/// A mix for each column: sums of products, eight columns at a time.
#[inline(always)]
unsafe fn per_column<S: Lanes, T: VectorRow>(
    plan: &LayerPlan,
    coefficients: &[Vec<i64>],
    window: &Window,
    rows: Rows<T>,
) {
    // SAFETY: as for `group`; the views hold `len` values.
    unsafe {
        for t in 0..window.len {
            let mix = |c: usize| {
                let mut mix = S::splat_long(0);
                for (k, of_columns) in coefficients.iter().enumerate() {
                    let value = S::splat_long(*window.views[k].add(t));
                    mix = S::add_longs(mix, S::mul(value, S::longs(of_columns.as_ptr().add(c))));
                }
                let (mut doubles, mut low) = ([0.0; LANES], [0; LANES]);
                S::store_mixes(if plan.narrow { S::narrow(mix) } else { mix }, doubles.as_mut_ptr(), low.as_mut_ptr());
                (S::doubles(doubles.as_ptr()), S::words(low.as_ptr()))
            };
            group::<S, T>(plan, 0, mix, rows.data.add(t * rows.stride));
        }
    }
}
