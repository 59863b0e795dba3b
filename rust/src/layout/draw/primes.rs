//! Primes in the orders that the published layouts take them: consecutive ones, and unused ones per layer, order, head.

use std::collections::{HashMap, HashSet};

use crate::{Error, Result};

/// These witnesses decide primality of every u64 (Sorenson and Webster, 2015: correct below 3.3e24).
const WITNESSES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

/// Most primes one call may ask for; a thousand layers of 64 columns.
pub const MAX_PRIMES: usize = 1 << 16;

fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    if n <= u64::from(u32::MAX) { a * b % n } else { (u128::from(a) * u128::from(b) % u128::from(n)) as u64 }
}

fn pow_mod(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut power = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = mul_mod(power, base, n);
        }
        base = mul_mod(base, base, n);
        exponent >>= 1;
    }
    power
}

/// Whether `n` is prime (Miller–Rabin with witnesses that leave no doubt for any u64).
pub fn is_prime(n: u64) -> bool {
    if n < 2 {
        return false;
    }
    for p in WITNESSES {
        if n.is_multiple_of(p) {
            return n == p;
        }
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    WITNESSES.iter().all(|&witness| {
        let mut x = pow_mod(witness, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..twos {
            x = mul_mod(x, x, n);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// The smallest prime above `n` that a table size can be (at most `i64::MAX`).
pub fn next_prime(n: u64) -> Result<u64> {
    (n.saturating_add(1)..=i64::MAX as u64)
        .find(|&candidate| is_prime(candidate))
        .ok_or_else(|| Error::draw("primes", format!("no prime above {n} fits 63 bits")))
}

fn check_count(count: Option<usize>) -> Result<usize> {
    count.filter(|&count| count <= MAX_PRIMES).ok_or_else(|| {
        let asked = count.map_or("more than that".into(), |count| count.to_string());
        Error::draw("primes", format!("at most {MAX_PRIMES} primes in one layout, {asked} asked for"))
    })
}

/// The `count` smallest primes above `above`.
pub fn primes_above(above: u64, count: usize) -> Result<Vec<i64>> {
    let mut primes = Vec::with_capacity(check_count(Some(count))?);
    let mut last = above;
    for _ in 0..count {
        last = next_prime(last)?;
        primes.push(last as i64);
    }
    Ok(primes)
}

/// For each of `layers` layers and each size: `heads` primes from `size` on that no earlier column has taken.
pub fn unused_primes(sizes: &[u64], heads: usize, layers: usize) -> Result<Vec<Vec<i64>>> {
    if sizes.is_empty() || heads == 0 || layers == 0 {
        let (sizes, shape) = (sizes.len(), format!("{heads} heads and {layers} layers"));
        return Err(Error::draw("primes", format!("{sizes} sizes, {shape}: each must be at least 1")));
    }
    check_count(sizes.len().checked_mul(heads).and_then(|columns| columns.checked_mul(layers)))?;
    let mut seen = HashSet::new();
    // Every prime from a size up to the last one found for it is taken, so a later layer goes on from there instead of
    // walking over all of them again (which is quadratic in the layers).
    let mut resume: HashMap<u64, u64> = HashMap::new();
    let mut rows = Vec::with_capacity(layers);
    for _ in 0..layers {
        let mut moduli = Vec::with_capacity(sizes.len() * heads);
        for &size in sizes {
            let last = resume.entry(size).or_insert(size.saturating_sub(1));
            for _ in 0..heads {
                *last = next_prime(*last)?;
                while !seen.insert(*last) {
                    *last = next_prime(*last)?;
                }
                moduli.push(*last as i64);
            }
        }
        rows.push(moduli);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_sieve() {
        let mut composite = vec![false; 200_000];
        for n in 2..composite.len() {
            assert_eq!(is_prime(n as u64), !composite[n], "{n}");
            if !composite[n] {
                (n * n..composite.len()).step_by(n).for_each(|multiple| composite[multiple] = true);
            }
        }
        assert!(!is_prime(0) && !is_prime(1));
    }

    #[test]
    fn large_numbers_and_strong_pseudoprimes() {
        for prime in [4_294_967_291, 4_294_967_311, (1 << 61) - 1, 18_446_744_073_709_551_557] {
            assert!(is_prime(prime), "{prime}");
        }
        for composite in [3_215_031_751, 3_825_123_056_546_413_051, 4_294_967_291 * 4_294_967_279, u64::MAX] {
            assert!(!is_prime(composite), "{composite}");
        }
    }

    #[test]
    fn published_order_of_primes() {
        assert_eq!(unused_primes(&[97, 97], 2, 2).unwrap(), [[97, 101, 103, 107], [109, 113, 127, 131]]);
        let demo = unused_primes(&[646_400, 646_400], 8, 2).unwrap();
        assert_eq!(demo[0][..3], [646_403, 646_411, 646_421]);
        assert_eq!((demo[0][15], demo[1][0], demo[1][15]), (646_619, 646_631, 646_879));
        let released = unused_primes(&[16_000_000; 3], 8, 2).unwrap();
        assert_eq!(released[0].iter().sum::<i64>(), 384_006_168);
        assert_eq!(released[1].iter().sum::<i64>(), 384_016_682);
    }

    #[test]
    fn resuming_equals_walking_from_the_start() {
        for sizes in [vec![5, 11, 5], vec![100, 97, 90, 120], vec![1, 2, 1]] {
            let mut seen = HashSet::new();
            let mut walked = Vec::new();
            for _ in 0..7 {
                let mut row = Vec::new();
                for &size in &sizes {
                    let mut current = size - 1;
                    for _ in 0..3 {
                        current = next_prime(current).unwrap();
                        while !seen.insert(current) {
                            current = next_prime(current).unwrap();
                        }
                        row.push(current as i64);
                    }
                }
                walked.push(row);
            }
            assert_eq!(unused_primes(&sizes, 3, 7).unwrap(), walked, "{sizes:?}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        assert!(next_prime(i64::MAX as u64).is_err());
        assert!(primes_above(0, MAX_PRIMES + 1).is_err());
        assert!(unused_primes(&[97], usize::MAX, 2).is_err());
        assert!(unused_primes(&[97], 0, usize::MAX).is_err());
        assert_eq!(primes_above(0, 4).unwrap(), [2, 3, 5, 7]);
        assert_eq!(primes_above(7, 1).unwrap(), [11]);
    }
}
