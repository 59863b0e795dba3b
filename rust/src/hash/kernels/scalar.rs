//! The scalar kernel: the specification of all others, and exact for every layout.

use super::{Kernel, Row};
use crate::hash::block::{Rows, Window};
use crate::hash::modulus::{remainder, to_double};
use crate::hash::plan::{LANES, LayerPlan, MixPlan, Modulus};

/// See [`Kernel`].
pub const KERNEL: Kernel = Kernel { name: "scalar", rows_i32: rows::<i32>, rows_i64: rows::<i64> };

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
    // SAFETY: t < window.len, and each view holds that many values.
    let value = |i: usize, t: usize| unsafe { *window.views[i].add(t) };
    // SAFETY: t < window.len, and the caller gave room for that many rows.
    let row = |t: usize| unsafe { std::slice::from_raw_parts_mut(rows.data.add(t * rows.stride), plan.columns) };
    match &plan.mix {
        MixPlan::Prefix { multipliers, orders } => {
            for t in 0..window.len {
                let (mut mix, mut taken, mut first) = (0i64, 0, 0);
                for (out, &order) in row(t).chunks_mut(plan.group).zip(orders) {
                    while taken < order {
                        mix ^= value(taken, t).wrapping_mul(multipliers[taken]);
                        taken += 1;
                    }
                    group(wrap(mix), first, out);
                    first += plan.padded_group;
                }
            }
        }
        MixPlan::PerColumn { coefficients } => {
            for t in 0..window.len {
                for (c, out) in row(t).iter_mut().enumerate() {
                    let product = |k: usize| value(k, t).wrapping_mul(coefficients[k][c]);
                    let mix = (0..coefficients.len()).fold(0i64, |mix, k| mix.wrapping_add(product(k)));
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
    let numbers = plan.p[first..].iter().zip(&plan.inv[first..]).zip(&T::offsets(plan)[first..]);
    if let Ok(out) = <&mut [T; LANES]>::try_from(&mut *out) {
        return eight(double, low, lanes(&plan.p, first), lanes(&plan.inv, first), lanes(T::offsets(plan), first), out);
    }
    for (out, ((&p, &inv), &offset)) in out.iter_mut().zip(numbers) {
        *out = T::from_remainder(i64::from(remainder(double, low, inv, p)), offset);
    }
}

#[inline(always)]
fn lanes<T>(values: &[T], first: usize) -> &[T; LANES] {
    values[first..].first_chunk().expect("the plan's arrays are padded to whole vectors")
}

/// Eight columns, the usual number of heads. The compiler makes some fifty SSE2 instructions of it, if it is not inlined:
/// only as arguments are the arrays known not to overlap. (A loop over slices of unknown length became five times as many.)
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
