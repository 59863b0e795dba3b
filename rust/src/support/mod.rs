//! Tools that know nothing of hashing: threads, pointers that cross them, files that are written whole.

pub mod atomic_file;
#[cfg(feature = "measure")]
pub mod fill;
pub mod pointers;
pub mod pool;
