//! The scalar kernel: the specification of all others, and exact for every layout.

use super::{Kernel, Row, Rows, Window};
use crate::hash::modulus::remainder;
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
    for t in 0..window.len {
        // SAFETY: t < window.len, for which the caller gave room.
        let out = unsafe { std::slice::from_raw_parts_mut(rows.data.add(t * rows.stride), plan.columns) };
        // SAFETY: each view holds window.len values.
        let value = |i: usize| unsafe { *window.views[i].add(t) };
        match &plan.mix {
            MixPlan::Prefix { multipliers, orders } => {
                let (mut mix, mut taken) = (0i64, 0);
                for (o, (&order, out)) in orders.iter().zip(out.chunks_exact_mut(plan.group)).enumerate() {
                    while taken < order {
                        mix ^= value(taken).wrapping_mul(multipliers[taken]);
                        taken += 1;
                    }
                    remainders(plan, wrap(plan, mix), o * plan.padded_group, out);
                }
            }
            MixPlan::PerColumn { coefficients } => {
                for (c, out) in out.iter_mut().enumerate() {
                    let mix = (0..coefficients.len())
                        .fold(0i64, |mix, k| mix.wrapping_add(value(k).wrapping_mul(coefficients[k][c])));
                    remainders(plan, wrap(plan, mix), c, std::slice::from_mut(out));
                }
            }
        }
    }
}

#[inline(always)]
fn wrap(plan: &LayerPlan, mix: i64) -> i64 {
    if plan.narrow { i64::from(mix as i32) } else { mix }
}

/// The rows of one mix, whose numbers begin at `first` in the plan's padded arrays.
#[inline(always)]
fn remainders<T: Row>(plan: &LayerPlan, mix: i64, first: usize, out: &mut [T]) {
    let columns = first..first + out.len();
    let offsets = &plan.offsets[columns.clone()];
    match plan.modulus {
        Modulus::Direct => {
            let (p, inv) = (&plan.p[columns.clone()], &plan.inv[columns]);
            // Whole vectors first, with lengths that the compiler knows.
            let (chunks, rest) = out.as_chunks_mut::<LANES>();
            let whole = chunks.len() * LANES;
            for (((out, p), inv), offset) in
                chunks.iter_mut().zip(p.as_chunks().0).zip(inv.as_chunks().0).zip(offsets.as_chunks().0)
            {
                direct::<T, LANES>(mix, p, inv, offset, out);
            }
            for (i, out) in rest.iter_mut().enumerate() {
                let c = whole + i;
                *out = T::from_remainder(i64::from(remainder(mix, inv[c], p[c])), offsets[c]);
            }
        }
        Modulus::TwoStep => {
            for ((c, out), &offset) in columns.zip(out).zip(offsets) {
                let r = remainder(mix, plan.inv_first[c], plan.p_first[c]);
                let r = remainder(i64::from(r), plan.inv[c], plan.p[c]);
                *out = T::from_remainder(i64::from(r), offset);
            }
        }
        Modulus::Division => {
            for ((c, out), &offset) in columns.zip(out).zip(offsets) {
                *out = T::from_remainder(mix.rem_euclid(plan.moduli[c]), offset);
            }
        }
    }
}

#[inline(always)]
fn direct<T: Row, const H: usize>(mix: i64, p: &[u32; H], inv: &[f64; H], offset: &[i64; H], out: &mut [T; H]) {
    for i in 0..H {
        out[i] = T::from_remainder(i64::from(remainder(mix, inv[i], p[i])), offset[i]);
    }
}
