//! Exact, fast hashed n-gram memory: token ids in, embedding table rows out.

pub mod atomic_file;
pub mod error;
pub mod fill;
pub mod hash;
pub mod ints;
pub mod layout;
pub mod pool;
pub mod token_map;

#[cfg(feature = "python")]
mod py;

pub use error::{Error, Result};
pub use hash::{HashState, Hasher};
pub use layout::HashLayout;
pub use token_map::TokenMap;
