//! Exact, fast hashed n-gram memory: token ids in, embedding table rows out.

pub mod atomic_file;
pub mod error;
pub mod layout;
pub mod token_map;

#[cfg(feature = "python")]
mod py;

pub use error::{Error, Result};
