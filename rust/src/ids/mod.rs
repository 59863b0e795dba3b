//! Ids as they lie in memory: integers of any kind, and a call's tokens with the boundaries of their look-back.

mod ints;
mod places;
mod range;

#[cfg(feature = "python")]
pub use ints::Kind;
pub use ints::{Int, Ints};
pub use places::Places;
pub use range::{IdRange, Outside};
