//! The x86-64 kernels: AVX2 with FMA, and AVX-512 (F, DQ, VL).
//!
//! Both take remainders in 256-bit vectors, two of doubles to one of rows. The AVX-512 kernel differs in the mixes (512-bit
//! vectors, a 64-bit product in one instruction) and has twice the registers.

use std::arch::asm;
use std::arch::x86_64::*;

use super::Kernel;
use super::vector::{self, Lanes, STREAM_16, STREAM_32};
use crate::hash::block::{Rows, Window};
use crate::hash::modulus::MAGIC;
use crate::hash::plan::LayerPlan;

/// See [`Kernel`].
pub const AVX2: Kernel = Kernel { name: "avx2", rows_i32: avx2_i32, rows_i64: avx2_i64 };
/// See [`Kernel`].
pub const AVX512: Kernel = Kernel { name: "avx512", rows_i32: avx512_i32, rows_i64: avx512_i64 };

/// Orders streamed stores before all that follow. Once per piece of work: it waits until they have left the processor, which
/// after every block doubled the time.
pub fn fence() {
    // SAFETY: SSE is part of the architecture, and no memory is named.
    unsafe { _mm_sfence() }
}

/// The kernels that this processor can run, fastest first.
pub fn available() -> Vec<Kernel> {
    let mut kernels = vec![];
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if avx2 && avx512 {
        kernels.push(AVX512);
    }
    if avx2 {
        kernels.push(AVX2);
    }
    kernels
}

macro_rules! entry {
    ($name:ident, $lanes:ty, $row:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn $name(plan: &LayerPlan, window: &Window, rows: Rows<$row>) {
            // SAFETY: handed on from the caller; the instruction set is enabled here.
            unsafe { vector::rows::<$lanes, $row>(plan, window, rows) }
        }
    };
}
entry!(avx2_i32, Avx2, i32, "avx2,fma");
entry!(avx2_i64, Avx2, i64, "avx2,fma");
entry!(avx512_i32, Avx512, i32, "avx2,fma,avx512f,avx512dq,avx512vl");
entry!(avx512_i64, Avx512, i64, "avx2,fma,avx512f,avx512dq,avx512vl");

struct Avx2;
struct Avx512;

/// What both do alike: all that happens in 256-bit vectors. Doubles are kept as lanes 0, 1, 4, 5 and 2, 3, 6, 7, so that one
/// shuffle packs the low halves of both vectors in order.
macro_rules! common {
    () => {
        type F = [__m256d; 2];
        type U = __m256i;

        #[inline(always)]
        unsafe fn doubles(at: *const f64) -> Self::F {
            // SAFETY: the caller's pointer.
            unsafe {
                [
                    _mm256_set_m128d(_mm_loadu_pd(at.add(4)), _mm_loadu_pd(at)),
                    _mm256_set_m128d(_mm_loadu_pd(at.add(6)), _mm_loadu_pd(at.add(2))),
                ]
            }
        }
        #[inline(always)]
        unsafe fn splat_double(x: f64) -> Self::F {
            // SAFETY: registers only.
            unsafe { [_mm256_set1_pd(x); 2] }
        }
        #[inline(always)]
        unsafe fn to_doubles(x: Self::U) -> Self::F {
            // SAFETY: registers only. Lanes 2, 3 and 4, 5 change places first.
            unsafe {
                let x = _mm256_permute4x64_epi64::<0b11_01_10_00>(x);
                [_mm256_cvtepi32_pd(_mm256_castsi256_si128(x)), _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(x))]
            }
        }
        #[inline(always)]
        unsafe fn quotients(x: Self::F, inv: Self::F) -> Self::U {
            // SAFETY: registers only.
            unsafe {
                let magic = _mm256_set1_pd(MAGIC);
                let z = [_mm256_fmadd_pd(x[0], inv[0], magic), _mm256_fmadd_pd(x[1], inv[1], magic)];
                let packed = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castpd_ps(z[0]), _mm256_castpd_ps(z[1]));
                _mm256_castps_si256(packed)
            }
        }
        #[inline(always)]
        unsafe fn words(at: *const u32) -> Self::U {
            // SAFETY: the caller's pointer.
            unsafe { _mm256_loadu_si256(at.cast()) }
        }
        #[inline(always)]
        unsafe fn splat_word(x: u32) -> Self::U {
            // SAFETY: registers only.
            unsafe { _mm256_set1_epi32(x as i32) }
        }
        #[inline(always)]
        unsafe fn add(a: Self::U, b: Self::U) -> Self::U {
            // SAFETY: registers only.
            unsafe { _mm256_add_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn residues(x: Self::U, q: Self::U, negated_p: Self::U) -> Self::U {
            // SAFETY: registers only.
            unsafe {
                let r = _mm256_add_epi32(_mm256_mullo_epi32(q, negated_p), x);
                _mm256_min_epu32(r, _mm256_sub_epi32(r, negated_p))
            }
        }
        #[inline(always)]
        unsafe fn store_words<const HOW: u8>(at: *mut i32, r: Self::U) {
            // SAFETY: the caller's pointer, aligned as `HOW` says.
            unsafe {
                match HOW {
                    STREAM_32 => _mm256_stream_si256(at.cast(), r),
                    STREAM_16 => {
                        // `_mm_stream_si128` is always the SSE instruction, and mixing those with AVX ones can stall.
                        let (low, high) = (_mm256_castsi256_si128(r), _mm256_extracti128_si256::<1>(r));
                        asm!("vmovntdq [{at}], {low}", "vmovntdq [{at} + 16], {high}",
                            at = in(reg) at, low = in(xmm_reg) low, high = in(xmm_reg) high,
                            options(nostack, preserves_flags));
                    }
                    _ => _mm256_storeu_si256(at.cast(), r),
                }
            }
        }
        #[inline(always)]
        unsafe fn store_some_words(at: *mut i32, r: Self::U, n: usize) {
            // SAFETY: the caller may write n < 8 elements; the others are masked out.
            unsafe {
                let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                _mm256_maskstore_epi32(at, _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane), r);
            }
        }
        #[inline(always)]
        unsafe fn store_longs<const HOW: u8>(at: *mut i64, r: Self::U, offsets: *const i64) {
            // SAFETY: the caller's pointers, `at` aligned as `HOW` says.
            unsafe {
                let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(r));
                let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(r));
                let low = _mm256_add_epi64(low, _mm256_loadu_si256(offsets.cast()));
                let high = _mm256_add_epi64(high, _mm256_loadu_si256(offsets.add(4).cast()));
                Self::store_words::<HOW>(at.cast(), low);
                Self::store_words::<HOW>(at.add(4).cast(), high);
            }
        }
    };
}

impl Lanes for Avx2 {
    common!();
    type X = [__m256i; 2];

    #[inline(always)]
    unsafe fn longs(at: *const i64) -> Self::X {
        // SAFETY: the caller's pointer.
        unsafe { [_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(4).cast())] }
    }
    #[inline(always)]
    unsafe fn splat_long(x: i64) -> Self::X {
        // SAFETY: registers only.
        unsafe { [_mm256_set1_epi64x(x); 2] }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [mul_256(a[0], b[0]), mul_256(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn add_longs(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [_mm256_add_epi64(a[0], b[0]), _mm256_add_epi64(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn narrow(x: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { [narrow_256(x[0]), narrow_256(x[1])] }
    }
    #[inline(always)]
    unsafe fn store_mixes(x: Self::X, doubles: *mut f64, low: *mut u32) {
        // SAFETY: the caller's pointers.
        unsafe {
            _mm256_storeu_pd(doubles, to_doubles_256(x[0]));
            _mm256_storeu_pd(doubles.add(4), to_doubles_256(x[1]));
            _mm_storeu_si128(low.cast(), low_halves_256(x[0]));
            _mm_storeu_si128(low.add(4).cast(), low_halves_256(x[1]));
        }
    }
}

/// The low 64 bits of products: low halves in full, the crossed ones into the high half.
#[inline(always)]
unsafe fn mul_256(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        let crossed = _mm256_add_epi64(
            _mm256_mul_epu32(a, _mm256_srli_epi64::<32>(b)),
            _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), b),
        );
        _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64::<32>(crossed))
    }
}

/// The sign bits of the low halves become the high halves.
#[inline(always)]
unsafe fn narrow_256(x: __m256i) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        let signs = _mm256_shuffle_epi32::<0b10_10_00_00>(_mm256_srai_epi32::<31>(x));
        _mm256_blend_epi32::<0b1010_1010>(x, signs)
    }
}

/// There is no AVX2 instruction for a 64-bit integer to a double. The low half becomes the mantissa of a number of exponent
/// 2^52; the high half, its sign bit turned, that of one of exponent 2^84. The second minus what both add (2^84 + 2^63 + 2^52)
/// is exact, so the one sum rounds as a conversion would.
#[inline(always)]
unsafe fn to_doubles_256(x: __m256i) -> __m256d {
    // SAFETY: registers only.
    unsafe {
        let low = _mm256_blend_epi32::<0b1010_1010>(x, _mm256_set1_epi32(0x4330_0000));
        let high = _mm256_xor_si256(_mm256_srli_epi64::<32>(x), _mm256_set1_epi64x(0x4530_0000_8000_0000));
        let both = _mm256_castsi256_pd(_mm256_set1_epi64x(0x4530_0000_8010_0000));
        _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low))
    }
}

#[inline(always)]
unsafe fn low_halves_256(x: __m256i) -> __m128i {
    // SAFETY: registers only.
    unsafe {
        let packed = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
        _mm256_castsi256_si128(packed)
    }
}

impl Lanes for Avx512 {
    common!();
    type X = __m512i;

    #[inline(always)]
    unsafe fn longs(at: *const i64) -> Self::X {
        // SAFETY: the caller's pointer.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }
    #[inline(always)]
    unsafe fn splat_long(x: i64) -> Self::X {
        // SAFETY: registers only.
        unsafe { _mm512_set1_epi64(x) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { _mm512_mullo_epi64(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn add_longs(a: Self::X, b: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { _mm512_add_epi64(a, b) }
    }
    #[inline(always)]
    unsafe fn narrow(x: Self::X) -> Self::X {
        // SAFETY: registers only.
        unsafe { _mm512_srai_epi64::<32>(_mm512_slli_epi64::<32>(x)) }
    }
    #[inline(always)]
    unsafe fn store_mixes(x: Self::X, doubles: *mut f64, low: *mut u32) {
        // SAFETY: the caller's pointers.
        unsafe {
            _mm512_storeu_pd(doubles, _mm512_cvtepi64_pd(x));
            _mm256_storeu_si256(low.cast(), _mm512_cvtepi64_epi32(x));
        }
    }
}
