//! The one error type: a variant per cause, each message naming the value, the limit and the place.

use std::path::PathBuf;

/// Everything that can go wrong in the core.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration value, an array shape or an option that is wrong; `field` is spelled as the caller spells it.
    #[error("{field}: {reason}")]
    Value {
        /// What was wrong, by the caller's name for it.
        field: String,
        /// The value and the limit.
        reason: String,
    },
    /// A token id that the layout or the token map does not hold.
    #[error("token id {id} at {place} is outside {what}")]
    TokenId {
        /// The id as given (wide enough for every integer dtype).
        id: i128,
        /// "row 3, column 17" or "position 17".
        place: String,
        /// The range, e.g. "the token map of 151669 ids".
        what: String,
    },
    /// A row of a state that is not there.
    #[error("row {row} is outside the state's {rows} rows")]
    Row {
        /// The row asked for.
        row: i64,
        /// How many there are.
        rows: usize,
    },
    /// A file that does not hold what its format promises.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own error.
        source: std::io::Error,
    },
    /// A tokenizer that the `tokenizers` crate cannot read or decode with.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// Two threads used one hash state at the same time.
    #[error(
        "concurrent use of a HashState: a state belongs to one caller at a time; give each thread its own (state.copy())"
    )]
    Concurrent,
}

/// The core's result type.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A bad value of `field`; the commonest error, so it has a short way to be made.
    pub fn value(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { field: field.into(), reason: reason.into() }
    }
}
