//! The ids that a layout accepts, and the fate of the others.

use serde::{Deserialize, Serialize};

/// The fate of a token id outside `0..limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// It is refused.
    Error,
    /// It enters the products as it is, unmapped.
    Enter,
}

/// The ids that a layout accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdRange {
    /// Number of ids; `None` if the layout has no limit.
    pub limit: Option<i64>,
    /// Ids below 0.
    pub negative: Outside,
    /// Ids at or past `limit`.
    pub too_large: Outside,
}
