//! The exact floor modulo of a wrapped 64-bit mix, without division.
//!
//! With `inv = 1/p` as a double and `M = 1.5 * 2^52`, the low bits of the mantissa of `x * inv + M` hold
//! `q = round(x / p)`, and only its low 32 bits are needed: `r = lo32(x) - lo32(q) * p` lies in `(-p, p)`, and the unsigned
//! minimum of `r` and `r + p` is the remainder in `[0, p)`, for negative `x` too.
//!
//! `q` is off from `x / p` by at most 1/2 (rounding to an integer) plus the relative errors of the conversion of `x`, of
//! `inv` and of the product, each 2^-53, times `|x / p|`. With `p > 2^13` that is `2^50 * 3 * 2^-53 < 1/2`, so `|r| < p`; with
//! a fused multiply-add, which saves the product's rounding, `p > 2^12` would do. `p < 2^31` keeps `r` in 32 bits.
//!
//! A smaller `p` takes two steps with the same formula: first modulo `p * 2^k`, which is past 2^13, then modulo `p`, where
//! `x < 2^15` is small enough for every `p >= 1`. Larger ones use the processor's division.

const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Moduli up to this take two steps.
pub const SMALL: i64 = 1 << 13;
/// Moduli from this on are divided by the processor.
pub const LARGE: i64 = 1 << 31;

/// `x` modulo `p`, for `2^13 < p < 2^31`, or for any `p` below when `|x| < 2^15`.
#[inline(always)]
pub fn remainder(x: i64, inv: f64, p: u32) -> u32 {
    let q = (x as f64 * inv + MAGIC).to_bits() as u32;
    let r = (x as u32).wrapping_sub(q.wrapping_mul(p));
    r.min(r.wrapping_add(p))
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
        let r = remainder(x, 1.0 / f64::from(first), first);
        let r = if first == p { r } else { remainder(i64::from(r), 1.0 / f64::from(p), p) };
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
