//! NumPy's `default_rng(seed).integers(0, high)`, bit for bit: SeedSequence, PCG64 (XSL-RR), bounded integers.
//!
//! NumPy does not promise this stream across versions and trained tables depend on it, so it lives here and the tests
//! compare it with NumPy.

use crate::layout::MAX_ORDER;
use crate::{Error, Result};

const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_L: u32 = 0xca01_f9dd;
const MIX_R: u32 = 0x4973_f715;
const PCG_MULTIPLIER: u128 = (2_549_297_995_355_413_924 << 64) | 4_865_540_595_714_422_341;
/// NumPy's step between the seeds of two layers.
pub const LAYER_STRIDE: u128 = 10_007;

struct HashConst {
    value: u32,
    factor: u32,
}

impl HashConst {
    fn hash(&mut self, word: u32) -> u32 {
        let mixed = word ^ self.value;
        self.value = self.value.wrapping_mul(self.factor);
        let mixed = mixed.wrapping_mul(self.value);
        mixed ^ (mixed >> 16)
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let mixed = x.wrapping_mul(MIX_L).wrapping_sub(y.wrapping_mul(MIX_R));
    mixed ^ (mixed >> 16)
}

/// `SeedSequence(entropy).generate_state(4, uint64)`.
fn seed_words(entropy: u128) -> [u64; 4] {
    let mut words: Vec<u32> = (0..4).map(|i| (entropy >> (32 * i)) as u32).collect();
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    let mut hash = HashConst { value: INIT_A, factor: MULT_A };
    let mut pool = [0u32; 4];
    for (i, slot) in pool.iter_mut().enumerate() {
        *slot = hash.hash(words.get(i).copied().unwrap_or(0));
    }
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                pool[target] = mix(pool[target], hash.hash(pool[source]));
            }
        }
    }
    // A u128 has four words at most, so the pool takes all of them and nothing is left to mix in.
    let mut hash = HashConst { value: INIT_B, factor: MULT_B };
    let mut state = [0u64; 4];
    for (i, word) in state.iter_mut().enumerate() {
        let low = u64::from(hash.hash(pool[(2 * i) % 4]));
        let high = u64::from(hash.hash(pool[(2 * i + 1) % 4]));
        *word = low | (high << 32);
    }
    state
}

/// NumPy's default generator, seeded as `default_rng(entropy)` seeds it.
pub struct NumpyRng {
    state: u128,
    increment: u128,
    spare: Option<u32>,
}

impl NumpyRng {
    /// `default_rng(entropy)`.
    pub fn new(entropy: u128) -> Self {
        let [w0, w1, w2, w3] = seed_words(entropy).map(u128::from);
        let mut rng = Self { state: 0, increment: (((w2 << 64) | w3) << 1) | 1, spare: None };
        rng.step();
        rng.state = rng.state.wrapping_add((w0 << 64) | w1);
        rng.step();
        rng
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(PCG_MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The low half of a 64-bit draw, then its high half.
    fn next_u32(&mut self) -> u32 {
        if let Some(high) = self.spare.take() {
            return high;
        }
        let word = self.next_u64();
        self.spare = Some((word >> 32) as u32);
        word as u32
    }

    /// One draw of `integers(0, high, dtype=int64)`; `high` is at least 1.
    pub fn integer_i64(&mut self, high: u64) -> u64 {
        let last = high - 1;
        if last <= u64::from(u32::MAX) {
            return u64::from(self.below_u32(last as u32));
        }
        if last == u64::MAX {
            return self.next_u64();
        }
        let mut product = u128::from(self.next_u64()) * u128::from(high);
        if (product as u64) < high {
            let threshold = (u64::MAX - last) % high;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(high);
            }
        }
        (product >> 64) as u64
    }

    /// One draw of `integers(0, high, dtype=int32)`; `high` is at least 1.
    pub fn integer_i32(&mut self, high: u32) -> u32 {
        self.below_u32(high - 1)
    }

    /// A draw from `0..=last` with 32-bit words (Lemire's multiplication method).
    fn below_u32(&mut self, last: u32) -> u32 {
        if last == 0 {
            return 0;
        }
        if last == u32::MAX {
            return self.next_u32();
        }
        let count = u64::from(last) + 1;
        let mut product = u64::from(self.next_u32()) * count;
        if u64::from(product as u32) < count {
            let threshold = u64::from(u32::MAX - last) % count;
            while u64::from(product as u32) < threshold {
                product = u64::from(self.next_u32()) * count;
            }
        }
        (product >> 32) as u32
    }
}

/// A window has one multiplier per look-back.
pub(super) fn check_count(n: usize) -> Result<()> {
    if n > MAX_ORDER {
        return Err(Error::draw("n", format!("{n} multipliers are more than {MAX_ORDER}")));
    }
    Ok(())
}

/// `n` odd multipliers of layer `layer_id` for products with ids below `compressed_size` that fit `word_bits` bits.
pub fn multipliers(compressed_size: u64, n: usize, layer_id: u64, seed: u64, word_bits: u32) -> Result<Vec<i64>> {
    if compressed_size == 0 {
        return Err(Error::draw("compressed_size", "0 is below 1"));
    }
    check_count(n)?;
    let mut rng = NumpyRng::new(u128::from(seed) + LAYER_STRIDE * u128::from(layer_id));
    match word_bits {
        64 => {
            let half = (i64::MAX as u64 / compressed_size / 2).max(1);
            Ok((0..n).map(|_| 2 * rng.integer_i64(half) as i64 + 1).collect())
        }
        32 => {
            let half = (i32::MAX as u64 / compressed_size / 2).max(1) as u32;
            Ok((0..n).map(|_| 2 * i64::from(rng.integer_i32(half)) + 1).collect())
        }
        other => Err(Error::draw("word_bits", format!("{other} is neither 64 nor 32"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_multipliers() {
        let draw = |size, n, layer| multipliers(size, n, layer, 0, 64).unwrap();
        assert_eq!(draw(98627, 3, 1), [76993395940407, 4862694818241, 36129212583461]);
        assert_eq!(draw(98627, 3, 15), [29055444938695, 56284491166079, 54183298291715]);
        assert_eq!(draw(99092, 4, 1), [76632096046245, 4839876093313, 35959672319349, 73987337458391]);
        assert_eq!(draw(99092, 4, 14), [67716810739261, 51510806800915, 30921347202721, 82619226485591]);
        assert_eq!(draw(1000, 3, 1), [7593627661414631, 479593001838623, 3563315849468963]);
    }

    #[test]
    fn draws_stay_below_high_and_one_value_needs_no_draw() {
        let mut rng = NumpyRng::new(u128::MAX);
        for high in [1, 2, 3, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 3 << 61, u64::MAX] {
            assert!((0..100).all(|_| rng.integer_i64(high) < high), "{high}");
        }
        let (mut a, mut b) = (NumpyRng::new(5), NumpyRng::new(5));
        assert_eq!(a.integer_i64(1), 0);
        assert_eq!(a.next_u64(), b.next_u64());
    }

    #[test]
    fn huge_sizes_give_ones_and_wrong_arguments_are_refused() {
        assert_eq!(multipliers(u64::MAX, 3, 0, 0, 64).unwrap(), [1, 1, 1]);
        assert_eq!(multipliers(1 << 40, 2, 0, 0, 32).unwrap(), [1, 1]);
        assert!(multipliers(0, 3, 0, 0, 64).is_err());
        assert!(multipliers(5, 3, 0, 0, 16).is_err());
        assert!(multipliers(1, 8, u64::MAX, u64::MAX, 64).is_ok());
    }
}
