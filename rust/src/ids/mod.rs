//! Ids as they lie in memory: integers of any kind, and a call's tokens with the boundaries of their look-back.

mod ints;
mod places;
mod range;

pub use ints::{Int, Ints, Kind};
pub use places::Places;
pub use range::{IdRange, Outside};
