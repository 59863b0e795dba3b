//! The scalar kernel: the specification of all others, and exact for every layout.

use super::{Kernel, Row, Rows, Window};
use crate::hash::modulus::{remainder, to_double};
use crate::hash::plan::{LANES, LayerPlan, MixPlan, Modulus};

/// See [`Kernel`].
pub const KERNEL: Kernel = Kernel { name: "scalar", rows_i32: rows::<i32>, rows_i64: rows::<i64>, all_below };

/// See [`super::AllBelowFn`]; a fold without a branch, which the compiler turns into vectors.
#[inline(always)]
pub fn all_below(ids: &[i64], limit: u64) -> bool {
    ids.iter().fold(true, |inside, &id| inside & ((id as u64) < limit))
}

/// # Safety
/// See [`super::RowsFn`]; any processor will do.
pub unsafe fn rows<T: Row>(plan: &LayerPlan, window: &Window, rows: Rows<T>) {
    // One loop for each kind of modulus: a choice within the loop costs more than the remainders.
    // SAFETY: handed on from the caller.
    unsafe {
        match plan.modulus {
            Modulus::Direct => tokens(plan, window, rows, |mix, first, out: &mut [T]| {
                direct(plan, mix, first, out);
            }),
            Modulus::TwoStep => tokens(plan, window, rows, |mix, first, out: &mut [T]| {
                for (c, out) in (first..).zip(out) {
                    let r = remainder(to_double(mix), mix as u32, plan.inv_first[c], plan.p_first[c]);
                    let r = remainder(f64::from(r), r, plan.inv[c], plan.p[c]);
                    *out = T::from_remainder(i64::from(r), T::offsets(plan)[c]);
                }
            }),
            Modulus::Division => tokens(plan, window, rows, |mix, first, out: &mut [T]| {
                for (c, out) in (first..).zip(out) {
                    *out = T::from_remainder(mix.rem_euclid(plan.moduli[c]), T::offsets(plan)[c]);
                }
            }),
        }
    }
}

/// Calls `group(mix, first, out)` for the columns of every mix; their numbers begin at `first` in the plan's padded arrays.
///
/// # Safety
/// That of [`rows`].
#[inline(always)]
unsafe fn tokens<T: Row>(plan: &LayerPlan, window: &Window, rows: Rows<T>, group: impl Fn(i64, usize, &mut [T])) {
    let wrap = |mix: i64| if plan.narrow { i64::from(mix as i32) } else { mix };
    for t in 0..window.len {
        // SAFETY: t < window.len, for which the caller gave room.
        let out = unsafe { std::slice::from_raw_parts_mut(rows.data.add(t * rows.stride), plan.columns) };
        // SAFETY: each view holds window.len values.
        let value = |i: usize| unsafe { *window.views[i].add(t) };
        match &plan.mix {
            MixPlan::Prefix { multipliers, orders } => {
                let (mut mix, mut taken) = (0i64, 0);
                for (o, &order) in orders.iter().enumerate() {
                    while taken < order {
                        mix ^= value(taken).wrapping_mul(multipliers[taken]);
                        taken += 1;
                    }
                    group(wrap(mix), o * plan.padded_group, &mut out[o * plan.group..][..plan.group]);
                }
            }
            MixPlan::PerColumn { coefficients } => {
                for (c, out) in out.iter_mut().enumerate() {
                    let mix = (0..coefficients.len())
                        .fold(0i64, |mix, k| mix.wrapping_add(value(k).wrapping_mul(coefficients[k][c])));
                    group(wrap(mix), c, std::slice::from_mut(out));
                }
            }
        }
    }
}

/// One step for each column of a mix.
#[inline(always)]
fn direct<T: Row>(plan: &LayerPlan, mix: i64, first: usize, out: &mut [T]) {
    let (double, low) = (to_double(mix), mix as u32);
    let (eights, rest) = out.as_chunks_mut();
    let mut c = first;
    for out in eights {
        eight(double, low, lanes(&plan.p, c), lanes(&plan.inv, c), lanes(T::offsets(plan), c), out);
        c += LANES;
    }
    for out in rest {
        *out = T::from_remainder(i64::from(remainder(double, low, plan.inv[c], plan.p[c])), T::offsets(plan)[c]);
        c += 1;
    }
}

#[inline(always)]
fn lanes<T>(values: &[T], first: usize) -> &[T; LANES] {
    values[first..].first_chunk().expect("the plan's arrays are padded to whole vectors")
}

/// Eight columns. The compiler makes some fifty SSE2 instructions of it, if it is not inlined: only as arguments are the
/// arrays known not to overlap. (A loop over slices of unknown length became five times as many.)
#[inline(never)]
fn eight<T: Row>(
    double: f64,
    low: u32,
    p: &[u32; LANES],
    inv: &[f64; LANES],
    offsets: &[T; LANES],
    out: &mut [T; LANES],
) {
    for i in 0..LANES {
        out[i] = T::from_remainder(i64::from(remainder(double, low, inv[i], p[i])), offsets[i]);
    }
}
