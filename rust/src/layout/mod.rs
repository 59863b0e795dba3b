//! `HashLayout`: the numbers of one model, validated once and frozen.

#[cfg(any(test, feature = "python"))]
pub mod draw;

mod digest;
mod json;
mod validate;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use crate::ids::{IdRange, Outside};
#[cfg(feature = "python")]
pub use validate::MAX_COLUMNS;

/// The largest n-gram order any layout may have; window buffers are sized by it.
pub const MAX_ORDER: usize = 16;

/// How the window's values become one value per order or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// XOR of products.
    Xor,
    /// Sum of products (polynomial hashes).
    Sum,
}

/// Which end of the window multiplier 0 belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// Multiplier `i` pairs with look-back `i`.
    Newest,
    /// Multiplier `i` pairs with look-back `N - 1 - i`.
    Oldest,
}

/// How columns are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Columns {
    /// Column = order index * heads + head.
    OrderMajor,
    /// Column = head * number of orders + order index.
    FunctionMajor,
}

/// The token map a layout was made for, by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenMapId {
    /// `TokenMap::digest`.
    pub digest: String,
    /// Raw ids.
    pub length: usize,
    /// Compressed ids.
    pub size: usize,
}

/// Multipliers of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Multipliers {
    /// `[N]`: shared by all columns; the column's order says how many take part.
    Shared(Vec<i64>),
    /// `[C][N]`: the coefficient of look-back `k` in column `c`, 0 past the column's order.
    PerColumn(Vec<Vec<i64>>),
}

/// The numbers of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The layer's number in its model.
    pub layer_id: i64,
    /// See [`Multipliers`].
    pub multipliers: Multipliers,
    /// Modulus of each column, `[C]`.
    pub moduli: Vec<i64>,
    /// Where each column's rows begin in a joint table, `[C]`.
    pub offsets: Vec<i64>,
    /// Rows of the joint table, padding included.
    pub rows: i64,
}

/// The numbers of one model; made by [`HashLayout::from_json`], which checks every one of them.
///
/// ```
/// use engram_fast::HashLayout;
/// let layout = HashLayout::from_json(r#"{
///     "format": "engram-fast-layout", "version": 1, "name": "tiny", "parameters": {},
///     "orders": [2], "heads": 2, "max_order": 2, "columns": "order-major", "mix": "xor", "word_bits": 64,
///     "align": "newest", "fill": 0, "boundary_ids": [],
///     "ids": {"limit": 1000, "negative": "error", "too_large": "error"}, "token_map": null, "adds_offsets": true,
///     "layers": [{"layer_id": 1, "multipliers": [3, 5], "moduli": [97, 101], "offsets": [0, 97], "rows": 198}]
/// }"#)?;
/// assert_eq!(layout.columns(), 2);
/// assert_eq!(layout.max_row(true), 197);
/// # Ok::<(), engram_fast::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HashLayout {
    format: String,
    version: u32,
    /// Preset name; metadata, not part of the digest.
    pub name: String,
    /// The published parameters it was made from; metadata, not part of the digest.
    pub parameters: serde_json::Value,
    /// n-gram orders, ascending.
    pub orders: Vec<usize>,
    /// Heads per order.
    pub heads: usize,
    /// N: tokens in the window.
    pub max_order: usize,
    /// See [`Columns`].
    pub columns: Columns,
    /// See [`Mix`].
    pub mix: Mix,
    /// Products and mix wrap at this width: 64, or 32 and the result is sign-extended.
    pub word_bits: u32,
    /// See [`Align`].
    pub align: Align,
    /// What an unreachable look-back reads.
    pub fill: i64,
    /// Raw ids after which the look-back stops.
    pub boundary_ids: Vec<i64>,
    /// See [`IdRange`].
    pub ids: IdRange,
    /// `None` where raw ids are hashed.
    pub token_map: Option<TokenMapId>,
    /// Whether rows carry `offsets` unless the caller says otherwise.
    pub adds_offsets: bool,
    /// In the order in which results are given.
    pub layers: Vec<Layer>,
}

impl HashLayout {
    /// C: the number of columns of every layer, orders times heads.
    pub fn columns(&self) -> usize {
        self.orders.len() * self.heads
    }

    /// The n-gram order of each column, `[C]`.
    pub fn column_orders(&self) -> Vec<usize> {
        (0..self.columns())
            .map(|column| match self.columns {
                Columns::OrderMajor => self.orders[column / self.heads],
                Columns::FunctionMajor => self.orders[column % self.orders.len()],
            })
            .collect()
    }

    /// Whether int32 holds every row number: the one rule of it.
    pub fn fits_int32(&self, add_offsets: bool) -> bool {
        self.max_row(add_offsets) <= i64::from(i32::MAX)
    }

    /// The largest row number that any layer and column can give.
    pub fn max_row(&self, add_offsets: bool) -> i64 {
        let of_layer = |layer: &Layer| {
            let last = |(modulus, offset): (&i64, &i64)| modulus - 1 + if add_offsets { *offset } else { 0 };
            layer.moduli.iter().zip(&layer.offsets).map(last).max()
        };
        self.layers.iter().filter_map(of_layer).max().unwrap_or(0)
    }
}
