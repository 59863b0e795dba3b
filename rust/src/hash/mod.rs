//! Hashing: raw ids → compressed ids → windows → mixes → rows, block by block, all layers in one pass.

pub mod batch;
mod block;
pub mod hasher;
pub mod kernels;
mod modulus;
mod plan;
pub mod state;
mod window;

pub use batch::LayerAxis;
pub use hasher::Hasher;
pub use kernels::Row;
pub use state::HashState;
