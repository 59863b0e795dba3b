//! `TokenMap`: raw token id to compressed id, a frozen artefact known by the digest of its content.

#[cfg(feature = "tokenizers")]
mod build;
mod file;
#[cfg(feature = "tokenizers")]
mod keys;
mod lookup;
#[cfg(feature = "tokenizers")]
mod threads;

#[cfg(all(test, feature = "tokenizers"))]
mod tests;

use sha2::{Digest, Sha256};

use crate::{Error, Result};

#[cfg(feature = "python")]
pub use keys::normalize_key;
pub use lookup::Lookup;

/// The release series of the `tokenizers` crate in `Cargo.toml`; a test compares the two.
const TOKENIZERS_VERSION: &str = "0.23";

/// The most ids a map may have. Real vocabularies end near one million; a `tokenizer.json` that names id 4000000000
/// is damaged or hostile, and is refused before memory is reserved for it.
pub const MAX_IDS: usize = 1 << 26;

/// How the keys of a map were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Decoded text, normalised; the raw piece where the text holds U+FFFD.
    NormalizedText,
    /// No keys: identity, or a look-up made elsewhere.
    None,
}

impl Rule {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NormalizedText => "normalized-text",
            Self::None => "none",
        }
    }

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::NormalizedText, Self::None].into_iter().find(|rule| rule.name() == name)
    }
}

/// Where a map comes from; never part of its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// How the keys were made.
    pub rule: Rule,
    /// What gave the texts: `tokenizer.json`, `tiktoken`, `lookup`, ….
    pub source: String,
    /// Hex sha256 of the tokenizer JSON, where there was one.
    pub source_digest: Option<String>,
    /// Version of this crate that built the map.
    pub engram_fast: String,
    /// Version of the `tokenizers` crate whose normalizers made the keys.
    pub tokenizers: String,
    /// Unicode version of Rust's own tables (lower-casing and white space).
    pub unicode: String,
}

impl Metadata {
    /// Metadata of a map built now.
    pub fn new(rule: Rule, source: impl Into<String>, source_digest: Option<String>) -> Self {
        let (major, minor, patch) = char::UNICODE_VERSION;
        Self {
            rule,
            source: source.into(),
            source_digest,
            engram_fast: env!("CARGO_PKG_VERSION").into(),
            tokenizers: TOKENIZERS_VERSION.into(),
            unicode: format!("{major}.{minor}.{patch}"),
        }
    }

    /// Name and value pairs, as files hold them.
    pub fn pairs(&self) -> Vec<(&'static str, &str)> {
        let mut pairs = vec![
            ("rule", self.rule.name()),
            ("source", &self.source),
            ("engram_fast", &self.engram_fast),
            ("tokenizers", &self.tokenizers),
            ("unicode", &self.unicode),
        ];
        pairs.extend(self.source_digest.as_deref().map(|digest| ("source_digest", digest)));
        pairs
    }
}

/// Raw token id to compressed id. Two maps are equal when their look-ups are.
#[derive(Clone, Debug)]
pub struct TokenMap {
    lookup: Vec<i32>,
    size: usize,
    holes: Vec<i32>,
    digest: String,
    metadata: Metadata,
}

impl TokenMap {
    /// The map that changes nothing: `n` ids, each its own compressed id.
    pub fn identity(n: usize) -> Result<Self> {
        check_length("n", n)?;
        Self::from_parts((0..n as i32).collect(), Vec::new(), Metadata::new(Rule::None, "identity", None))
    }

    /// A map given as numbers: entry `i` is the compressed id of raw id `i`. Any values from 0 to 2^31 - 1 are
    /// taken, gaps included; the compressed size is the largest plus one.
    pub fn from_lookup<I: Copy + Into<i128>>(lookup: &[I]) -> Result<Self> {
        Self::from_numbers(lookup, Vec::new(), Metadata::new(Rule::None, "lookup", None))
    }

    /// The same for a look-up of which more is known.
    pub fn from_numbers<I>(lookup: &[I], holes: Vec<i32>, metadata: Metadata) -> Result<Self>
    where
        I: Copy + Into<i128>,
    {
        check_length("lookup", lookup.len())?;
        let convert = |(id, &value): (usize, &I)| {
            let value = value.into();
            i32::try_from(value).ok().filter(|v| *v >= 0).ok_or_else(|| {
                Error::token_map("lookup", format!("compressed id {value} at position {id} is not in 0..=2147483647"))
            })
        };
        Self::from_parts(lookup.iter().enumerate().map(convert).collect::<Result<_>>()?, holes, metadata)
    }

    /// The one way a map comes to be: checks every number, then computes size and digest.
    pub fn from_parts(lookup: Vec<i32>, holes: Vec<i32>, metadata: Metadata) -> Result<Self> {
        check_length("lookup", lookup.len())?;
        if let Some((id, value)) = lookup.iter().enumerate().find(|(_, value)| **value < 0) {
            return Err(Error::token_map("lookup", format!("compressed id {value} at position {id} is negative")));
        }
        for (index, &hole) in holes.iter().enumerate() {
            let reason = if usize::try_from(hole).map_or(true, |id| id >= lookup.len()) {
                format!("is outside 0..{}", lookup.len())
            } else if index > 0 && holes[index - 1] >= hole {
                format!("does not come after {}", holes[index - 1])
            } else if lookup[hole as usize] != lookup[holes[0] as usize] {
                format!("has compressed id {}, hole {} has another", lookup[hole as usize], holes[0])
            } else {
                continue;
            };
            return Err(Error::token_map("holes", format!("hole {hole} at position {index} {reason}")));
        }
        let size = lookup.iter().copied().max().unwrap_or(0) as usize + 1;
        let digest = digest(&lookup);
        Ok(Self { lookup, size, holes, digest, metadata })
    }

    /// Compressed id of every raw id.
    pub fn lookup(&self) -> &[i32] {
        &self.lookup
    }

    /// Number of compressed ids: the largest plus one.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of raw ids.
    #[allow(clippy::len_without_is_empty)] // a map is never empty
    pub fn len(&self) -> usize {
        self.lookup.len()
    }

    /// Ids that the tokenizer does not know, ascending; they share one compressed id.
    pub fn holes(&self) -> &[i32] {
        &self.holes
    }

    /// Hex sha256 of the length and the look-up, all as little-endian int32: content alone.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Where the map comes from.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl PartialEq for TokenMap {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TokenMap {}

fn check_length(field: &'static str, length: usize) -> Result<()> {
    match length {
        0 => Err(Error::token_map(field, "0 ids; a token map needs at least one")),
        1..=MAX_IDS => Ok(()),
        _ => Err(Error::token_map(field, format!("{length} ids; a token map holds at most {MAX_IDS}"))),
    }
}

fn digest(lookup: &[i32]) -> String {
    let mut hasher = Sha256::new();
    hasher.update((lookup.len() as i32).to_le_bytes());
    // A block at a time keeps the little-endian copy in L1.
    let mut block = [0u8; 4096];
    for values in lookup.chunks(block.len() / 4) {
        for (bytes, value) in block.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        hasher.update(&block[..values.len() * 4]);
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
