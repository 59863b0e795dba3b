//! The generators that published models draw their numbers with: NumPy's stream, SplitMix64, primes.

pub mod numpy_rng;
pub mod primes;
pub mod splitmix;
