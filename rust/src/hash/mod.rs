//! Hashing: raw ids → compressed ids → windows → mixes → rows, block by block, all layers in one pass.

mod compress;
pub mod driver;
mod hasher;
pub mod kernels;
mod modulus;
pub mod places;
mod plan;
pub mod state;
pub mod window;

pub use crate::ints as ids;
pub use crate::ints::{Int, Ints, Kind};
pub use hasher::Hasher;
pub use places::Places;
pub use state::HashState;
