//! The NEON kernel, which every aarch64 processor can run.

use std::arch::aarch64::*;

use super::Kernel;
use super::vector::{self, Lanes};
use crate::hash::block::{Rows, Window};
use crate::hash::modulus::MAGIC;
use crate::hash::plan::{LANES, LayerPlan};

/// See [`Kernel`].
pub const NEON: Kernel = Kernel { name: "neon", rows_i32, rows_i64 };

unsafe fn rows_i32(plan: &LayerPlan, window: &Window, rows: Rows<i32>) {
    // SAFETY: handed on from the caller; NEON is part of the architecture.
    unsafe { vector::rows::<Neon, i32>(plan, window, rows) }
}

unsafe fn rows_i64(plan: &LayerPlan, window: &Window, rows: Rows<i64>) {
    // SAFETY: as above.
    unsafe { vector::rows::<Neon, i64>(plan, window, rows) }
}

struct Neon;

impl Lanes for Neon {
    type F = [float64x2_t; 4];
    type U = [uint32x4_t; 2];
    type X = [int64x2_t; 4];

    #[inline(always)]
    unsafe fn doubles(at: *const f64) -> Self::F {
        // SAFETY: the caller's pointer.
        unsafe { [vld1q_f64(at), vld1q_f64(at.add(2)), vld1q_f64(at.add(4)), vld1q_f64(at.add(6))] }
    }
    #[inline(always)]
    unsafe fn splat_double(x: f64) -> Self::F {
        // SAFETY: registers only.
        unsafe { [vdupq_n_f64(x); 4] }
    }
    #[inline(always)]
    unsafe fn to_doubles(x: Self::U) -> Self::F {
        // SAFETY: registers only.
        unsafe {
            [
                vcvtq_f64_u64(vmovl_u32(vget_low_u32(x[0]))),
                vcvtq_f64_u64(vmovl_u32(vget_high_u32(x[0]))),
                vcvtq_f64_u64(vmovl_u32(vget_low_u32(x[1]))),
                vcvtq_f64_u64(vmovl_u32(vget_high_u32(x[1]))),
            ]
        }
    }
    #[inline(always)]
    unsafe fn quotients(x: Self::F, inv: Self::F) -> Self::U {
        // SAFETY: registers only.
        unsafe {
            let magic = vdupq_n_f64(MAGIC);
            let z = [
                vreinterpretq_u32_f64(vfmaq_f64(magic, x[0], inv[0])),
                vreinterpretq_u32_f64(vfmaq_f64(magic, x[1], inv[1])),
                vreinterpretq_u32_f64(vfmaq_f64(magic, x[2], inv[2])),
                vreinterpretq_u32_f64(vfmaq_f64(magic, x[3], inv[3])),
            ];
            [vuzp1q_u32(z[0], z[1]), vuzp1q_u32(z[2], z[3])]
        }
    }
    #[inline(always)]
    unsafe fn words(at: *const u32) -> Self::U {
        // SAFETY: the caller's pointer.
        unsafe { [vld1q_u32(at), vld1q_u32(at.add(4))] }
    }
    #[inline(always)]
    unsafe fn splat_word(x: u32) -> Self::U {
        // SAFETY: registers only.
        unsafe { [vdupq_n_u32(x); 2] }
    }
    #[inline(always)]
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U {
        // SAFETY: registers only.
        unsafe { [vaddq_u32(a[0], b[0]), vaddq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn residues(x: Self::U, q: Self::U, negated_p: Self::U) -> Self::U {
        // SAFETY: registers only.
        unsafe {
            let r = [vmlaq_u32(x[0], q[0], negated_p[0]), vmlaq_u32(x[1], q[1], negated_p[1])];
            [vminq_u32(r[0], vsubq_u32(r[0], negated_p[0])), vminq_u32(r[1], vsubq_u32(r[1], negated_p[1]))]
        }
    }
    #[inline(always)]
    unsafe fn longs(at: *const i64) -> Self::X {
        // SAFETY: the caller's pointer.
        unsafe { [vld1q_s64(at), vld1q_s64(at.add(2)), vld1q_s64(at.add(4)), vld1q_s64(at.add(6))] }
    }
    #[inline(always)]
    unsafe fn splat_long(x: i64) -> Self::X {
        // SAFETY: registers only.
        unsafe { [vdupq_n_s64(x); 4] }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [mul_pair(a[0], b[0]), mul_pair(a[1], b[1]), mul_pair(a[2], b[2]), mul_pair(a[3], b[3])] }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [veorq_s64(a[0], b[0]), veorq_s64(a[1], b[1]), veorq_s64(a[2], b[2]), veorq_s64(a[3], b[3])] }
    }
    #[inline(always)]
    unsafe fn add_longs(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [vaddq_s64(a[0], b[0]), vaddq_s64(a[1], b[1]), vaddq_s64(a[2], b[2]), vaddq_s64(a[3], b[3])] }
    }
    #[inline(always)]
    unsafe fn narrow(x: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe {
            [
                vmovl_s32(vmovn_s64(x[0])),
                vmovl_s32(vmovn_s64(x[1])),
                vmovl_s32(vmovn_s64(x[2])),
                vmovl_s32(vmovn_s64(x[3])),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store_mixes(x: Self::X, doubles: *mut f64, low: *mut u32) {
        // SAFETY: the caller's pointers.
        unsafe {
            let mut i = 0;
            while i < 4 {
                vst1q_f64(doubles.add(2 * i), vcvtq_f64_s64(x[i]));
                vst1_u32(low.add(2 * i), vmovn_u64(vreinterpretq_u64_s64(x[i])));
                i += 1;
            }
        }
    }
    #[inline(always)]
    unsafe fn store_words<const HOW: u8>(at: *mut i32, r: Self::U) {
        // SAFETY: the caller's pointer. There is no store around the caches worth having here: `HOW` makes no difference.
        unsafe {
            vst1q_u32(at.cast(), r[0]);
            vst1q_u32(at.add(4).cast(), r[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_some_words(at: *mut i32, r: Self::U, n: usize) {
        let mut all = [0; LANES];
        // SAFETY: the caller may write n < 8 elements.
        unsafe {
            Self::store_words::<{ vector::PLAIN }>(all.as_mut_ptr(), r);
            std::ptr::copy_nonoverlapping(all.as_ptr(), at, n);
        }
    }
    #[inline(always)]
    unsafe fn store_longs<const HOW: u8>(at: *mut i64, r: Self::U, offsets: *const i64) {
        // SAFETY: the caller's pointers.
        unsafe {
            let long = [
                vmovl_u32(vget_low_u32(r[0])),
                vmovl_u32(vget_high_u32(r[0])),
                vmovl_u32(vget_low_u32(r[1])),
                vmovl_u32(vget_high_u32(r[1])),
            ];
            let mut i = 0;
            while i < 4 {
                let row = vaddq_s64(vreinterpretq_s64_u64(long[i]), vld1q_s64(offsets.add(2 * i)));
                vst1q_s64(at.add(2 * i), row);
                i += 1;
            }
        }
    }
}

/// The low 64 bits of products: low halves in full, the crossed ones into the high half.
#[inline(always)]
unsafe fn mul_pair(a: int64x2_t, b: int64x2_t) -> int64x2_t {
    // SAFETY: registers only.
    unsafe {
        let (a, b) = (vreinterpretq_u64_s64(a), vreinterpretq_u64_s64(b));
        let crossed = vmulq_u32(vreinterpretq_u32_u64(a), vrev64q_u32(vreinterpretq_u32_u64(b)));
        let high = vshlq_n_u64::<32>(vpaddlq_u32(crossed));
        vreinterpretq_s64_u64(vmlal_u32(high, vmovn_u64(a), vmovn_u64(b)))
    }
}
