//! The map as one safetensors file: two int32 tensors and string metadata, all of it checked when it is read.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::Value;

use super::{MAX_IDS, Metadata, Rule, TokenMap};
use crate::support::atomic_file::write_atomically;
use crate::{Error, Result};

/// The file's own name for itself.
const FORMAT: &str = "engram-fast-token-map";
/// The one version there is.
const VERSION: &str = "1";
/// Header bytes; ours take about 700.
const MAX_HEADER: u64 = 1 << 20;
/// Nothing longer is read into memory.
const MAX_FILE: u64 = 8 + MAX_HEADER + 2 * 4 * MAX_IDS as u64;

/// What was wrong, without saying where it came from.
type Checked<T> = std::result::Result<T, String>;

impl TokenMap {
    /// Writes the file in one step: readers see the old one or the new one, and an error leaves nothing behind.
    pub fn save(&self, path: &Path) -> Result<()> {
        write_atomically(path, &self.to_bytes())
    }

    /// Reads a file that [`TokenMap::save`] wrote and checks all of it, digest included.
    pub fn load(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let refuse = |reason| Error::File { path: path.to_owned(), problem: reason };
        let found = std::fs::metadata(path).map_err(io)?;
        if !found.is_file() {
            return Err(refuse("is not a regular file".into()));
        }
        if found.len() > MAX_FILE {
            return Err(refuse(format!("is {} bytes long; a token map has at most {MAX_FILE}", found.len())));
        }
        parse(&std::fs::read(path).map_err(io)?).map_err(refuse)
    }

    /// The bytes of the file; the same map gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (lookup, holes) = (little_endian(&self.lookup), little_endian(&self.holes));
        let view = |data, length| TensorView::new(Dtype::I32, vec![length], data).expect("four bytes for each int32");
        let tensors = [("holes", view(&holes, self.holes.len())), ("lookup", view(&lookup, self.lookup.len()))];
        let (size, length) = (self.size.to_string(), self.lookup.len().to_string());
        let holes_digest = super::digest(&self.holes);
        let own = [
            ("format", FORMAT),
            ("version", VERSION),
            ("digest", &self.digest),
            ("holes_digest", &holes_digest),
            ("size", &size),
            ("length", &length),
        ];
        let pairs = own.into_iter().chain(self.metadata.pairs());
        let metadata: HashMap<_, _> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut bytes = serialize(tensors, Some(metadata)).expect("two small tensors");
        sort_header(&mut bytes);
        bytes
    }

    /// Reads what [`TokenMap::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        parse(bytes).map_err(|reason| Error::token_map("bytes of a token map", reason))
    }
}

/// The crate writes metadata in the order of a `HashMap`, another each time; sorted, equal maps are equal files.
fn sort_header(bytes: &mut [u8]) {
    let (length, rest) = bytes.split_at_mut(8);
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize;
    let header = &mut rest[..length];
    let sorted: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_slice(header).expect("just written");
    let sorted = serde_json::to_vec(&sorted).expect("strings and integers");
    // The same entries in another order; the crate pads with spaces.
    header.fill(b' ');
    header[..sorted.len()].copy_from_slice(&sorted);
}

fn parse(bytes: &[u8]) -> Checked<TokenMap> {
    let Some((header, _)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("is {} bytes long; it ends before its header", bytes.len()));
    };
    let header = u64::from_le_bytes(*header);
    if header > MAX_HEADER {
        return Err(format!("claims a header of {header} bytes; a token map has at most {MAX_HEADER}"));
    }
    if header > bytes.len() as u64 - 8 {
        return Err(format!("claims a header of {header} bytes but is {} bytes long", bytes.len()));
    }
    let not_ours = |error: SafeTensorError| format!("is not a safetensors file: {error}");
    let (_, info) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(not_ours)?;
    let fields = info.metadata().as_ref().ok_or("has no metadata")?;
    let field = |name: &str| fields.get(name).map(String::as_str).ok_or_else(|| format!("metadata lacks {name:?}"));

    expect("format", field("format")?, FORMAT)?;
    expect("version", field("version")?, VERSION)?;
    let mut names = tensors.names();
    names.sort_unstable();
    if names != ["holes", "lookup"] {
        return Err(format!("holds the tensors {names:?}, not \"holes\" and \"lookup\""));
    }
    let rule = field("rule")?;
    let metadata = Metadata {
        rule: Rule::from_name(rule).ok_or_else(|| {
            let known = [Rule::NormalizedText.name(), Rule::None.name()];
            format!("rule {rule:?} is none of {known:?}")
        })?,
        source: field("source")?.into(),
        source_digest: fields.get("source_digest").cloned(),
        engram_fast: field("engram_fast")?.into(),
        tokenizers: field("tokenizers")?.into(),
        unicode: field("unicode")?.into(),
    };
    let lookup = int32(&tensors, "lookup")?;
    expect("length", field("length")?, &lookup.len().to_string())?;
    let map = TokenMap::from_parts(lookup, int32(&tensors, "holes")?, metadata).map_err(|error| error.to_string())?;
    expect("size", field("size")?, &map.size.to_string())?;
    expect("digest", field("digest")?, &map.digest)?;
    expect("holes_digest", field("holes_digest")?, &super::digest(&map.holes))?;
    Ok(map)
}

fn expect(name: &str, found: &str, expected: &str) -> Checked<()> {
    if found == expected { Ok(()) } else { Err(format!("{name} is {found:?}, expected {expected:?}")) }
}

fn int32(tensors: &SafeTensors, name: &str) -> Checked<Vec<i32>> {
    let tensor = tensors.tensor(name).map_err(|error| error.to_string())?;
    if tensor.dtype() != Dtype::I32 || tensor.shape().len() != 1 {
        return Err(format!("tensor {name:?} is {:?} {:?}, not one-dimensional I32", tensor.dtype(), tensor.shape()));
    }
    Ok(tensor.data().chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect())
}

fn little_endian(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
