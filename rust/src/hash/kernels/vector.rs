//! The vector kernels' one algorithm, over the operations that an instruction set offers for eight lanes.
//!
//! A block goes through two more stages after its window: mixes, eight tokens at a time, kept as doubles and as low
//! halves in first-level cache; then remainders, one token at a time, so that its columns are written together. In the
//! usual case (heads a multiple of eight, moduli past 2^13) the constants of all columns stay in registers.

use super::{Mixes, Row, Rows, Window, scalar};
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
    /// `r = x - q * p`, then the unsigned minimum of `r` and `r + p`.
    unsafe fn residues(x: Self::U, q: Self::U, p: Self::U) -> Self::U;

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
    /// Makes streamed stores visible to other threads.
    unsafe fn fence();
}

/// Rows as an element type stores them.
pub trait VectorRow: Row {
    /// Stores eight remainders with the offsets of the padded column `c`.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn store<S: Lanes, const HOW: u8>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize);
    /// Stores the first `n` of eight.
    ///
    /// # Safety
    /// See [`Lanes`].
    unsafe fn store_some<S: Lanes>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize, n: usize);
}

impl VectorRow for i32 {
    #[inline(always)]
    unsafe fn store<S: Lanes, const HOW: u8>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize) {
        // SAFETY: the caller's; `c` begins a whole vector of the padded arrays.
        unsafe { S::store_words::<HOW>(at, S::add(r, S::words(plan.offsets_i32.as_ptr().add(c).cast()))) }
    }
    #[inline(always)]
    unsafe fn store_some<S: Lanes>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize, n: usize) {
        // SAFETY: as above.
        unsafe { S::store_some_words(at, S::add(r, S::words(plan.offsets_i32.as_ptr().add(c).cast())), n) }
    }
}

impl VectorRow for i64 {
    #[inline(always)]
    unsafe fn store<S: Lanes, const HOW: u8>(at: *mut Self, r: S::U, plan: &LayerPlan, c: usize) {
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
            MixPlan::Prefix { multipliers, orders } => {
                let mixes = &mut *window.mixes;
                let consecutive = orders.first() == Some(&2) && orders.len() == multipliers.len() - 1;
                match multipliers.len() {
                    2 if consecutive => mix_fixed::<S, 2>(plan.narrow, multipliers, window, mixes),
                    3 if consecutive => mix_fixed::<S, 3>(plan.narrow, multipliers, window, mixes),
                    4 if consecutive => mix_fixed::<S, 4>(plan.narrow, multipliers, window, mixes),
                    _ => mix_any::<S>(plan.narrow, multipliers, orders, window, mixes),
                }
                remainders::<S, T>(plan, orders.len(), mixes, window.len, rows);
            }
        }
    }
}

/// The mixes of eight tokens at a time for the orders 2 to `N`, each extending the last.
#[inline(always)]
unsafe fn mix_fixed<S: Lanes, const N: usize>(narrow: bool, multipliers: &[i64], window: &Window, mixes: &mut Mixes) {
    // SAFETY: views can be read, and the arrays of mixes written, up to the next multiple of eight past the length.
    unsafe {
        let mut splat = [S::splat_long(0); N];
        for k in 0..N {
            splat[k] = S::splat_long(multipliers[k]);
        }
        let mut t = 0;
        while t < window.len {
            let mut mix = S::mul(S::longs(window.views[0].add(t)), splat[0]);
            for k in 1..N {
                mix = S::xor(mix, S::mul(S::longs(window.views[k].add(t)), splat[k]));
                let mix = if narrow { S::narrow(mix) } else { mix };
                S::store_mixes(mix, mixes.doubles[k - 1].as_mut_ptr().add(t), mixes.low[k - 1].as_mut_ptr().add(t));
            }
            t += LANES;
        }
    }
}

/// The same for any ascending orders.
#[inline(always)]
unsafe fn mix_any<S: Lanes>(narrow: bool, multipliers: &[i64], orders: &[usize], window: &Window, mixes: &mut Mixes) {
    // SAFETY: as above.
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

/// Chooses the loop for the plan's shape.
#[inline(always)]
unsafe fn remainders<S: Lanes, T: VectorRow>(
    plan: &LayerPlan,
    orders: usize,
    mixes: &Mixes,
    len: usize,
    rows: Rows<T>,
) {
    let vectors = orders * plan.padded_group / LANES;
    // SAFETY: handed on from the caller.
    unsafe {
        if plan.group != plan.padded_group || plan.modulus != Modulus::Direct || vectors > 6 {
            return any_shape::<S, T>(plan, orders, mixes, len, rows);
        }
        let bytes = rows.stride * size_of::<T>();
        match (rows.stream, (rows.data as usize | bytes) % 32) {
            (true, 0) => {
                whole_vectors::<S, T, STREAM_32>(plan, vectors, mixes, len, rows);
                S::fence();
            }
            (true, 16) => {
                whole_vectors::<S, T, STREAM_16>(plan, vectors, mixes, len, rows);
                S::fence();
            }
            _ => whole_vectors::<S, T, PLAIN>(plan, vectors, mixes, len, rows),
        }
    }
}

#[inline(always)]
unsafe fn whole_vectors<S: Lanes, T: VectorRow, const HOW: u8>(
    plan: &LayerPlan,
    vectors: usize,
    mixes: &Mixes,
    len: usize,
    rows: Rows<T>,
) {
    // SAFETY: handed on from the caller.
    unsafe {
        match vectors {
            1 => fixed::<S, T, HOW, 1>(plan, mixes, len, rows),
            2 => fixed::<S, T, HOW, 2>(plan, mixes, len, rows),
            3 => fixed::<S, T, HOW, 3>(plan, mixes, len, rows),
            4 => fixed::<S, T, HOW, 4>(plan, mixes, len, rows),
            5 => fixed::<S, T, HOW, 5>(plan, mixes, len, rows),
            _ => fixed::<S, T, HOW, 6>(plan, mixes, len, rows),
        }
    }
}

/// `V` whole vectors of columns, one step each, the constants in registers.
#[inline(always)]
unsafe fn fixed<S: Lanes, T: VectorRow, const HOW: u8, const V: usize>(
    plan: &LayerPlan,
    mixes: &Mixes,
    len: usize,
    rows: Rows<T>,
) {
    let per_order = plan.padded_group / LANES;
    // SAFETY: V vectors are what the padded arrays hold; the mixes of `len` tokens have been stored.
    unsafe {
        let (mut inv, mut p) = ([S::splat_double(0.0); V], [S::splat_word(0); V]);
        let (mut doubles, mut low) = ([std::ptr::null(); V], [std::ptr::null(); V]);
        for v in 0..V {
            inv[v] = S::doubles(plan.inv.as_ptr().add(v * LANES));
            p[v] = S::words(plan.p.as_ptr().add(v * LANES));
            doubles[v] = mixes.doubles[v / per_order].as_ptr();
            low[v] = mixes.low[v / per_order].as_ptr();
        }
        for t in 0..len {
            let out = rows.data.add(t * rows.stride);
            for v in 0..V {
                let q = S::quotients(S::splat_double(*doubles[v].add(t)), inv[v]);
                let r = S::residues(S::splat_word(*low[v].add(t)), q, p[v]);
                T::store::<S, HOW>(out.add(v * LANES), r, plan, v * LANES);
            }
        }
    }
}

/// Any number of heads, one step or two.
#[inline(always)]
unsafe fn any_shape<S: Lanes, T: VectorRow>(
    plan: &LayerPlan,
    orders: usize,
    mixes: &Mixes,
    len: usize,
    rows: Rows<T>,
) {
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
                step(double, low, &plan.inv, &plan.p)
            } else {
                let r = step(double, low, &plan.inv_first, &plan.p_first);
                step(S::to_doubles(r), r, &plan.inv, &plan.p)
            };
            match plan.group - h {
                n if n >= LANES => T::store::<S, PLAIN>(out.add(h), r, plan, c),
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
