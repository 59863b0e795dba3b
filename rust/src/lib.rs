//! Exact, fast hashed n-gram memory: token ids in, embedding table rows out.
//!
//! Three objects, in the order of the data's path: a [`TokenMap`] (raw token id to compressed id), a [`HashLayout`] (the
//! numbers of one model, from JSON) and a [`Hasher`] made from both. The presets that turn a published model's parameters
//! into such JSON are part of the Python package (`HashLayout.preset(…).to_json()`); nothing here needs Python.
//!
//! ```
//! use std::sync::Arc;
//!
//! use engram_fast::{Error, HashLayout, Hasher, TokenMap};
//!
//! // Raw id 10 is another spelling of token 4. A layout names the token map it was made for by its content.
//! let map = TokenMap::from_lookup(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4])?;
//! let layout = HashLayout::from_json(&format!(
//!     r#"{{
//!         "format": "engram-fast-layout", "version": 1, "name": "small", "parameters": {{}},
//!         "orders": [2, 3], "heads": 1, "max_order": 3, "columns": "order-major", "mix": "xor", "word_bits": 64,
//!         "align": "newest", "fill": 0, "boundary_ids": [],
//!         "ids": {{"limit": {length}, "negative": "error", "too_large": "error"}},
//!         "token_map": {{"digest": "{digest}", "length": {length}, "size": {size}}}, "adds_offsets": false,
//!         "layers": [{{"layer_id": 0, "multipliers": [3, 5, 7], "moduli": [101, 103], "offsets": [0, 101], "rows": 204}}]
//!     }}"#,
//!     digest = map.digest(),
//!     length = map.len(),
//!     size = map.size(),
//! ))?;
//! let hasher = Hasher::new(Arc::new(layout), Some(Arc::new(map)))?;
//!
//! // One row of three tokens: [layers, rows, tokens, columns] with two columns, one for each order.
//! let rows: Vec<i32> = hasher.batch(&[10u16, 6, 9], [1, 3])?.to_vec()?;
//! assert_eq!(rows, [12, 12, 6, 6, 5, 25]);
//! assert_eq!(rows[4..], [(9 * 3 ^ 6 * 5) % 101, (9 * 3 ^ 6 * 5 ^ 4 * 7) % 103]);
//!
//! let refused = hasher.batch(&[4i64, 11], [1, 2])?.to_vec::<i64>().unwrap_err();
//! assert!(matches!(refused, Error::TokenId { id: 11, .. }));
//! assert_eq!(refused.to_string(), "token id 11 at row 0, column 1 is outside the token map of 11 ids");
//! # Ok::<(), Error>(())
//! ```

pub mod error;
mod hash;
mod ids;
mod layout;
mod support;
mod token_map;

#[cfg(feature = "python")]
mod py;

pub use error::{Error, Result};
pub use hash::hasher::Batch;
pub use hash::{HashState, Hasher, LayerAxis, Row};
pub use ids::{Int, Ints as Ids};
pub use layout::HashLayout;
pub use token_map::TokenMap;
