//! The one error type: a variant per cause, each message with the value, the limit and the place.

use std::fmt;
use std::path::PathBuf;

/// Every failure of the core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A token id that the layout or the token map does not hold.
    #[error("token id {id} at {place} is outside {accepted}")]
    TokenId {
        /// The refused id, wide enough for every integer dtype.
        id: i128,
        /// Its place among the ids of the call.
        place: Place,
        /// The ids that would have been accepted.
        accepted: Accepted,
    },
    /// An array whose shape does not fit the others.
    #[error("{name}: expected the shape {expected:?}, got {got:?}")]
    Shape {
        /// The argument.
        name: &'static str,
        /// The shape that fits.
        expected: Vec<usize>,
        /// The shape that the argument has.
        got: Vec<usize>,
    },
    /// A slice whose length is not that of its shape.
    #[error("{name}: {length} values cannot have the shape {shape:?}")]
    Length {
        /// The argument.
        name: &'static str,
        /// Values in the slice.
        length: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A mask value other than 0 and 1.
    #[error("mask: expected 0 or 1, got {value} at {place}")]
    Mask {
        /// The value.
        value: i128,
        /// Its place in the mask.
        place: Place,
    },
    /// Segment bounds that do not rise from 0 to the number of ids.
    #[error("cu_seqlens {0}")]
    CuSeqlens(#[from] CuSeqlens),
    /// A layer that the layout does not have.
    #[error("layers: {layer} is not a layer of this layout, which has {known:?}")]
    Layer {
        /// The layer id.
        layer: i64,
        /// The layout's layer ids.
        known: Vec<i64>,
    },
    /// Row numbers past the integer type of the result.
    #[error("dtype: int32 cannot hold row {row} of the layout {layout}; ask for int64")]
    RowWidth {
        /// The largest row number of the layout.
        row: i64,
        /// The layout's name.
        layout: String,
    },
    /// A row of a state that is not there.
    #[error("row {row} is outside the state's {rows} rows")]
    Row {
        /// The row.
        row: i64,
        /// Rows of the state.
        rows: usize,
    },
    /// A count of accepted tokens outside the tokens of its row.
    #[error("accepted: {count} at row {row} is outside 0..{length}")]
    Accepted {
        /// The count.
        count: i64,
        /// The row.
        row: usize,
        /// Tokens in each row.
        length: usize,
    },
    /// A state that a hasher of another layout made.
    #[error("state: was made by the hasher of another layout")]
    StateOfOtherLayout,
    /// Two threads used one hash state at the same time.
    #[error(
        "concurrent use of a HashState: a state belongs to one caller at a time; give each thread its own (state.copy())"
    )]
    Concurrent,
    /// A number of a layout that is wrong, or a layout text that cannot be read.
    #[error("{field}: {problem}")]
    Layout {
        /// The field's path, e.g. `layers[0].moduli[3]`.
        field: String,
        /// The value and the limit.
        problem: String,
    },
    /// A parameter of a random or prime number generator.
    #[error("{parameter}: {problem}")]
    Draw {
        /// The parameter.
        parameter: &'static str,
        /// The value and the limit.
        problem: String,
    },
    /// A token map that a layout was not made for.
    #[error("token_map: the layout {layout} {mismatch}")]
    TokenMapMismatch {
        /// The layout's name.
        layout: String,
        /// The difference.
        mismatch: Mismatch,
    },
    /// Numbers that are no token map.
    #[error("{field}: {problem}")]
    TokenMap {
        /// The argument or the part of the file.
        field: &'static str,
        /// The value and the limit.
        problem: String,
    },
    /// A tokenizer that the `tokenizers` crate cannot read or decode with.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A kernel that this processor cannot run.
    #[error("{setting}: kernel {name:?} is not available on this CPU; available: {}", available.join(", "))]
    Kernel {
        /// The argument or the environment variable that names the kernel.
        setting: &'static str,
        /// The name.
        name: String,
        /// The kernels of this processor.
        available: Vec<&'static str>,
    },
    /// An environment variable that holds no number of bytes.
    #[error("{variable}: {value:?} is not a number of bytes")]
    Bytes {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A file whose content breaks its format.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The part of the format that it breaks.
        problem: String,
    },
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own error.
        source: std::io::Error,
    },
}

/// The core's result type.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A wrong number of a layout: the commonest error, so it has a short way to be made.
    pub(crate) fn layout(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Layout { field: field.into(), problem: problem.into() }
    }

    /// A wrong parameter of a generator.
    #[cfg(any(test, feature = "python"))]
    pub(crate) fn draw(parameter: &'static str, problem: impl Into<String>) -> Self {
        Self::Draw { parameter, problem: problem.into() }
    }

    /// A number that no token map has.
    pub(crate) fn token_map(field: &'static str, problem: impl Into<String>) -> Self {
        Self::TokenMap { field, problem: problem.into() }
    }
}

/// The place of a value in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In one dimension.
    Position(usize),
    /// In two dimensions.
    Cell {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
    },
    /// In more dimensions.
    Index(Vec<usize>),
}

impl Place {
    /// The place of the value that is number `position` of an array in C order.
    pub(crate) fn of(shape: &[usize], position: usize) -> Self {
        let mut rest = position;
        let mut index: Vec<usize> = shape
            .iter()
            .rev()
            .map(|&length| {
                let here = rest % length.max(1);
                rest /= length.max(1);
                here
            })
            .collect();
        index.reverse();
        match index[..] {
            [] | [_] => Self::Position(position),
            [row, column] => Self::Cell { row, column },
            _ => Self::Index(index),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Position(position) => write!(f, "position {position}"),
            Self::Cell { row, column } => write!(f, "row {row}, column {column}"),
            Self::Index(index) => write!(f, "index {index:?}"),
        }
    }
}

/// The ids that a layout or a token map accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Those of the token map.
    TokenMap {
        /// Raw ids of the map.
        length: i64,
    },
    /// Those of the layout's vocabulary.
    Vocabulary {
        /// Ids of the vocabulary.
        length: i64,
    },
    /// Compressed ids.
    Compressed {
        /// Compressed ids of the token map.
        size: i64,
    },
    /// Every number that is not negative.
    NonNegative,
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::TokenMap { length } => write!(f, "the token map of {length} ids"),
            Self::Vocabulary { length } => write!(f, "the layout's vocabulary of {length} ids"),
            Self::Compressed { size } => write!(f, "the {size} compressed ids"),
            Self::NonNegative => f.write_str("the ids that the layout accepts (0 to 2^63-1)"),
        }
    }
}

/// The fault of segment bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CuSeqlens {
    /// The ids are a batch of rows.
    #[error("needs flat ids [N]; got a batch of {rows} rows")]
    Batch {
        /// Rows of the batch.
        rows: usize,
    },
    /// There are no bounds.
    #[error("is empty; expected 0, …, {length}")]
    Empty {
        /// The number of ids.
        length: usize,
    },
    /// The first bound is not 0.
    #[error("begins with {first}, not with 0")]
    First {
        /// The first bound.
        first: i64,
    },
    /// The last bound is not the number of ids.
    #[error("ends with {last}, not with the number of ids, {length}")]
    Last {
        /// The last bound.
        last: i64,
        /// The number of ids.
        length: usize,
    },
    /// A bound is below the one before it.
    #[error("falls from {from} to {to} at position {position}")]
    Falls {
        /// The bound before.
        from: i64,
        /// The bound.
        to: i64,
        /// Its position.
        position: usize,
    },
}

/// The difference between the token map that a layout needs and the one that it got.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The layout hashes compressed ids, and got no map.
    #[error("hashes compressed ids and needs its token map of {length} ids")]
    Missing {
        /// Raw ids of the map.
        length: usize,
    },
    /// The layout hashes raw ids, and got a map.
    #[error("hashes raw ids and takes no token map")]
    Needless,
    /// The layout got another map.
    #[error("was made for the token map {expected}, not for {got}")]
    Other {
        /// The map of the layout.
        expected: Box<MapId>,
        /// The map that it got.
        got: Box<MapId>,
    },
}

/// A token map as a message shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapId {
    /// Hex sha256 of the map's content.
    pub digest: String,
    /// Raw ids.
    pub length: usize,
    /// Compressed ids.
    pub size: usize,
}

impl fmt::Display for MapId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} of {} ids ({} compressed)", self.digest, self.length, self.size)
    }
}
