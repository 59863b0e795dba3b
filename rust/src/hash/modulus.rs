//! The exact floor modulo of a wrapped 64-bit mix, without division.
//!
//! With `inv = 1/p` as a double and `M = 1.5 * 2^52`, the low bits of the mantissa of `x * inv + M` hold
//! `q = round(x / p)`, and only its low 32 bits are needed: `r = lo32(x) - lo32(q) * p` lies in `(-p, p)`, and with `p` added
//! where it is negative it is the remainder in `[0, p)`, for negative `x` too. (The unsigned minimum of `r` and `r + p` is the
//! same number, in one instruction less where there is an unsigned minimum; SSE2 has none.)
//!
//! `q` is off from `x / p` by at most 1/2 (rounding to an integer) plus the relative errors of the conversion of `x`, of
//! `inv` and of the product, each 2^-53, times `|x / p|`. With `p > 2^13` that is `2^50 * 3 * 2^-53 < 1/2`, so `|r| < p`; with
//! a fused multiply-add, which saves the product's rounding, `p > 2^12` would do. `p < 2^31` keeps `r` in 32 bits.
//!
//! A smaller `p` takes two steps with the same formula: first modulo `p * 2^k`, which is past 2^13, then modulo `p`, where
//! `x < 2^15` is small enough for every `p >= 1`. Larger ones use the processor's division.

/// 1.5 * 2^52: added to a small double, it leaves the nearest integer in the low bits.
pub const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Moduli up to this take two steps.
pub const SMALL: i64 = 1 << 13;
/// Moduli from this on are divided by the processor.
pub const LARGE: i64 = 1 << 31;

/// `x` as a double, rounded to nearest: what `x as f64` is, by integer operations and one rounded sum.
///
/// The low half becomes the mantissa of a number of exponent 2^52, the high half, its sign bit turned, that of one of exponent
/// 2^84; the second minus what both add (2^84 + 2^63 + 2^52) is exact. The x86-64 instruction for the conversion keeps half of
/// its target register, so it waits for whatever wrote that last, here the remainders of the mix before: with it, the
/// scalar kernel took twice as long.
#[inline(always)]
pub fn to_double(x: i64) -> f64 {
    let low = f64::from_bits(0x4330_0000_0000_0000 | u64::from(x as u32));
    let high = f64::from_bits(0x4530_0000_8000_0000 ^ (x as u64 >> 32));
    (high - f64::from_bits(0x4530_0000_8010_0000)) + low
}

/// `x` modulo `p`, for `2^13 < p < 2^31`, or for any `p` below when `|x| < 2^15`. `x` comes as a double, rounded to nearest,
/// and as its low half.
#[inline(always)]
pub fn remainder(double: f64, low: u32, inv: f64, p: u32) -> u32 {
    let q = (double * inv + MAGIC).to_bits() as u32;
    let r = low.wrapping_sub(q.wrapping_mul(p));
    r.wrapping_add(p & (r as i32 >> 31) as u32)
}

/// The first modulus of two for a `p` of at most [`SMALL`]: `p * 2^k`, just past it.
pub fn scaled(p: u32) -> u32 {
    let mut scaled = p;
    while i64::from(scaled) <= SMALL {
        scaled *= 2;
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges() -> Vec<i64> {
        let mut xs = vec![];
        for bit in 0..63 {
            for d in -2..=2 {
                xs.push((1i64 << bit).wrapping_add(d));
                xs.push((1i64 << bit).wrapping_neg().wrapping_add(d));
            }
        }
        xs.extend([i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1]);
        xs
    }

    fn check(x: i64, p: u32) {
        let expected = x.rem_euclid(i64::from(p)) as u32;
        let first = scaled(p);
        let r = remainder(to_double(x), x as u32, 1.0 / f64::from(first), first);
        let r = if first == p { r } else { remainder(f64::from(r), r, 1.0 / f64::from(p), p) };
        assert_eq!(r, expected, "{x} mod {p}");
    }

    #[test]
    fn exact_at_every_edge() {
        let moduli =
            [1, 2, 3, 97, 4095, 4096, 4097, 8191, 8192, 8193, 8209, 646_403, 16_000_057, (1 << 31) - 1, 1 << 30];
        for p in moduli {
            for x in edges() {
                check(x, p);
            }
            // Multiples of p and their neighbours, near the ends of the range: where a quotient off by one shows.
            for k in 0..2000i64 {
                for end in [i64::MAX, i64::MIN] {
                    let near = end / i64::from(p) * i64::from(p);
                    for d in -1..=1 {
                        check(near.wrapping_sub(k.wrapping_mul(i64::from(p)) * end.signum()).wrapping_add(d), p);
                    }
                }
            }
        }
    }

    #[test]
    fn doubles_round_as_the_processor_rounds() {
        for x in edges() {
            assert_eq!(to_double(x), x as f64, "{x}");
        }
    }

    #[test]
    fn exact_for_random_values() {
        let mut s = 1u64;
        let mut next = || {
            s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            s ^ (s >> 29)
        };
        for _ in 0..300_000 {
            let p = (next() >> 33) as u32 >> (next() % 30);
            check(next() as i64 >> (next() % 40), p.max(1));
        }
    }
}
