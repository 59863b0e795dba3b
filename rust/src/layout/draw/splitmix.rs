//! Multipliers from SplitMix64, as the Qwen per-layer n-gram embedding draws them.

use super::numpy_rng::check_count;
use crate::{Error, Result};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn splitmix64(value: u64) -> u64 {
    let v = value.wrapping_add(GOLDEN);
    let v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    v ^ (v >> 31)
}

/// `n` odd multipliers of the `index`-th layer that has such a table.
pub fn multipliers(vocab_size: u64, n: usize, index: u64, seed: u64) -> Result<Vec<i64>> {
    if vocab_size == 0 {
        return Err(Error::draw("vocab_size", "0 is below 1"));
    }
    check_count(n)?;
    let half = (i64::MAX as u64 / vocab_size / 2).max(1);
    let base = seed.wrapping_add(index.wrapping_mul(10_007));
    let draw = |i: u64| splitmix64(base.wrapping_add(GOLDEN.wrapping_mul(i + 1))) % half;
    Ok((0..n as u64).map(|i| 2 * draw(i) as i64 + 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_multipliers() {
        let drawn = multipliers(248_320, 3, 0, 1234).unwrap();
        assert_eq!(drawn, [23703573157769, 20109073645365, 8052911324071]);
    }

    #[test]
    fn edges() {
        assert!(multipliers(0, 3, 0, 0).is_err());
        assert_eq!(multipliers(u64::MAX, 2, 1, 1).unwrap(), [1, 1]);
        assert!(multipliers(1, 3, u64::MAX, u64::MAX).unwrap().iter().all(|m| m % 2 == 1));
    }
}
