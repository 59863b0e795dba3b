//! A layer's numbers in the form that the kernels read.

use super::modulus::{LARGE, SMALL, scaled};
use crate::layout::{Align, HashLayout, Layer, Multipliers};

/// Columns that kernels treat at once. Each group of columns that share a mix begins a new vector: the arrays of a plan
/// are padded between groups, so that no vector straddles two.
pub const LANES: usize = 8;

/// How a layer's remainders are taken; decided once, for all its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modulus {
    /// Every modulus lies in (2^13, 2^31): one step.
    Direct,
    /// Every modulus lies below 2^31: two steps, the first of which changes nothing for the large ones.
    TwoStep,
    /// Some modulus is 2^31 or more: the processor's division.
    Division,
}

/// How a token's window becomes the values whose remainders are the rows.
#[derive(Clone, Debug)]
pub enum MixPlan {
    /// XOR of products, each order extending the last: columns are grouped by order, `heads` in each.
    Prefix {
        /// One per position of the window, in the window's order.
        multipliers: Vec<i64>,
        /// Ascending; order `n` takes the first `n` products.
        orders: Vec<usize>,
    },
    /// A sum of products for each column; all columns are one group.
    PerColumn {
        /// `[N][padded C]`: the coefficient of look-back `k` in column `c` at `[k][c]`.
        coefficients: Vec<Vec<i64>>,
    },
}

/// One layer, ready to hash. "Padded" arrays hold the groups one after another, each padded to whole vectors.
#[derive(Clone, Debug)]
pub struct LayerPlan {
    /// Columns, without padding.
    pub columns: usize,
    /// Columns of each group that share a mix: the heads of an order, or all of them.
    pub group: usize,
    /// The same, padded to whole vectors.
    pub padded_group: usize,
    /// See [`MixPlan`].
    pub mix: MixPlan,
    /// How many positions of the window and how many vectors for each mix, in the usual shape: orders from 2 on, heads in
    /// whole vectors, one step per remainder.
    pub usual: Option<[usize; 2]>,
    /// Whether the mix wraps at 32 bits and is sign-extended.
    pub narrow: bool,
    /// See [`Modulus`].
    pub modulus: Modulus,
    /// Padded.
    pub moduli: Vec<i64>,
    /// Padded `moduli` as 32-bit numbers; meaningless for [`Modulus::Division`].
    pub p: Vec<u32>,
    /// `1 / p`.
    pub inv: Vec<f64>,
    /// `-p`, wrapped.
    pub negated_p: Vec<u32>,
    /// The first of two steps (equal to `p` where one is enough).
    pub p_first: Vec<u32>,
    /// `-p_first`, wrapped.
    pub negated_p_first: Vec<u32>,
    /// `1 / p_first`.
    pub inv_first: Vec<f64>,
    /// Whether the caller wants offsets and there are any.
    pub has_offsets: bool,
    /// Padded; added to the remainders; zeros where the caller wants none.
    pub offsets: Vec<i64>,
    /// The low halves of `offsets`, for rows of 32 bits.
    pub offsets_i32: Vec<i32>,
}

impl LayerPlan {
    /// The plan of `layout.layers[index]`, with or without its offsets.
    pub fn new(layout: &HashLayout, index: usize, add_offsets: bool) -> Self {
        let layer: &Layer = &layout.layers[index];
        let columns = layer.moduli.len();
        let group = match layer.multipliers {
            Multipliers::Shared(_) => layout.heads,
            Multipliers::PerColumn(_) => columns,
        };
        let pad = |values: &[i64], with: i64| -> Vec<i64> {
            let padded = |group: &[i64]| {
                let mut group = group.to_vec();
                group.resize(group.len().next_multiple_of(LANES), with);
                group
            };
            values.chunks(group).flat_map(padded).collect()
        };
        let mix = match &layer.multipliers {
            Multipliers::Shared(multipliers) => {
                MixPlan::Prefix { multipliers: multipliers.clone(), orders: layout.orders.clone() }
            }
            Multipliers::PerColumn(rows) => {
                let coefficient = |k: usize| pad(&rows.iter().map(|row| row[k]).collect::<Vec<_>>(), 0);
                MixPlan::PerColumn { coefficients: (0..layout.max_order).map(coefficient).collect() }
            }
        };
        let modulus = if layer.moduli.iter().any(|&p| p >= LARGE) {
            Modulus::Division
        } else if layer.moduli.iter().all(|&p| p > SMALL) {
            Modulus::Direct
        } else {
            Modulus::TwoStep
        };
        let usual = match &mix {
            MixPlan::Prefix { multipliers, orders } => {
                let consecutive = orders.first() == Some(&2) && orders.len() == multipliers.len() - 1;
                let whole = group % LANES == 0 && modulus == Modulus::Direct;
                (consecutive && whole).then_some([multipliers.len(), group / LANES])
            }
            MixPlan::PerColumn { .. } => None,
        };
        let moduli = pad(&layer.moduli, SMALL + 1);
        let p: Vec<u32> = moduli.iter().map(|&p| if p < LARGE { p as u32 } else { 1 }).collect();
        let p_first: Vec<u32> = p.iter().map(|&p| scaled(p)).collect();
        let inverse = |p: &[u32]| p.iter().map(|&p| 1.0 / f64::from(p)).collect();
        let offsets = if add_offsets { pad(&layer.offsets, 0) } else { vec![0; moduli.len()] };
        Self {
            columns,
            group,
            padded_group: group.next_multiple_of(LANES),
            mix,
            usual,
            narrow: layout.word_bits == 32,
            modulus,
            inv: inverse(&p),
            inv_first: inverse(&p_first),
            moduli,
            negated_p: p.iter().map(|p| p.wrapping_neg()).collect(),
            negated_p_first: p_first.iter().map(|p| p.wrapping_neg()).collect(),
            p,
            p_first,
            has_offsets: offsets.iter().any(|&offset| offset != 0),
            offsets_i32: offsets.iter().map(|&offset| offset as i32).collect(),
            offsets,
        }
    }
}

/// Whether the kernels see the window oldest first.
pub fn reversed(layout: &HashLayout) -> bool {
    layout.align == Align::Oldest
}
