//! Building a map from a tokenizer, or from the texts and pieces of one.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use sha2::{Digest, Sha256};
use tokenizers::{Model, Tokenizer};

use super::keys::key;
use super::threads::collect_known;
use super::{MAX_IDS, Metadata, Rule, TokenMap, check_length, hex};
use crate::{Error, Result};

impl TokenMap {
    /// From a `tokenizer.json`, or from a folder that holds one. See [`TokenMap::from_json`].
    pub fn from_file(path: &Path, vocab_size: Option<usize>, threads: usize) -> Result<Self> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let bytes = std::fs::read(&file).map_err(|source| Error::Io { path: file.clone(), source })?;
        Self::from_json(&bytes, vocab_size, threads).map_err(|error| match error {
            Error::Tokenizer(reason) => Error::Tokenizer(format!("{}: {reason}", file.display())),
            other => other,
        })
    }

    /// From the JSON of a `tokenizers` tokenizer.
    ///
    /// Ids run from 0 to the tokenizer's largest, or to `vocab_size`, which may be larger but must not lose an id.
    /// Each is decoded alone by the crate's own `decode`, special tokens kept. Ids that the tokenizer does not know
    /// are holes, whose key is empty.
    pub fn from_json(bytes: &[u8], vocab_size: Option<usize>, threads: usize) -> Result<Self> {
        let tokenizer = guarded("reading the JSON", || Tokenizer::from_bytes(bytes).map_err(tokenizer_error))?;
        let vocab = tokenizer.get_model().get_vocab();
        refuse_shared_ids(&vocab)?;
        let (n, known) = known_keys(&tokenizer, vocab.into_values().max(), vocab_size, threads)?;
        let metadata =
            Metadata::new(Rule::NormalizedText, "tokenizer.json", Some(hex(Sha256::digest(bytes).as_slice())));
        from_known(n, known, metadata)
    }

    /// From the decoded text and the raw piece of every id; a text that is `None` is a hole. The piece is looked at
    /// only where the text holds U+FFFD. `source` says where the texts come from.
    pub fn from_pieces<S>(texts: &[Option<S>], pieces: &[Option<S>], source: &str, threads: usize) -> Result<Self>
    where
        S: AsRef<str> + Sync,
    {
        if texts.len() != pieces.len() {
            let reason = format!("{} pieces for {} texts; there must be one for each", pieces.len(), texts.len());
            return Err(Error::token_map("pieces", reason));
        }
        check_length("texts", texts.len())?;
        let known = collect_known(texts.len(), threads, |id| {
            let Some(text) = &texts[id as usize] else { return Ok(None) };
            let piece = || pieces[id as usize].as_ref().map(|piece| piece.as_ref().to_owned());
            key(text.as_ref().to_owned(), piece).map(Some).ok_or_else(|| {
                Error::token_map(
                    "pieces",
                    format!("token id {id} has no piece, and its text {:?} needs one", text.as_ref()),
                )
            })
        })?;
        from_known(texts.len(), known, Metadata::new(Rule::NormalizedText, source, None))
    }
}

/// Numbers the keys in order of first appearance; ids that are not in `known` (ascending) are holes.
fn from_known(n: usize, known: Vec<(u32, String)>, metadata: Metadata) -> Result<TokenMap> {
    check_length("vocab_size", n)?;
    let mut numbers: HashMap<&str, i32> = HashMap::with_capacity(known.len() + 1);
    let mut number_of = |key| {
        let next = numbers.len() as i32;
        *numbers.entry(key).or_insert(next)
    };
    let mut lookup = Vec::with_capacity(n);
    let mut holes = Vec::new();
    let mut known = known.iter().peekable();
    for id in 0..n as u32 {
        let key = match known.next_if(|(known_id, _)| *known_id == id) {
            Some((_, key)) => key.as_str(),
            None => {
                holes.push(id as i32);
                ""
            }
        };
        lookup.push(number_of(key));
    }
    TokenMap::from_parts(lookup, holes, metadata)
}

/// The crate keeps one of two pieces that share an id, and which one differs from run to run.
fn refuse_shared_ids(vocab: &HashMap<String, u32>) -> Result<()> {
    let mut pieces: Vec<_> = vocab.iter().map(|(piece, id)| (*id, piece)).collect();
    pieces.sort_unstable();
    match pieces.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => {
            let ((id, one), (_, other)) = (pair[0], pair[1]);
            Err(Error::Tokenizer(format!("token id {id} belongs to two pieces, {one:?} and {other:?}")))
        }
    }
}

/// The number of ids, and the key of each that the tokenizer knows; `largest` is its model's largest id.
fn known_keys(
    tokenizer: &Tokenizer,
    largest: Option<u32>,
    vocab_size: Option<usize>,
    threads: usize,
) -> Result<(usize, Vec<(u32, String)>)> {
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder().keys().copied().max();
    let n = id_count(largest.max(added), vocab_size)?;
    let known = guarded("decoding", || {
        collect_known(n, threads, |id| {
            let Some(piece) = tokenizer.id_to_token(id) else { return Ok(None) };
            let text = tokenizer
                .decode(&[id], false)
                .map_err(|error| Error::Tokenizer(format!("cannot decode token id {id}: {error}")))?;
            Ok(key(text, || Some(piece)))
        })
    })?;
    Ok((n, known))
}

/// How many ids the map has; refuses a `vocab_size` that loses ids, and counts no real vocabulary has.
fn id_count(largest: Option<u32>, vocab_size: Option<usize>) -> Result<usize> {
    let needed = match largest {
        Some(id) if id as usize >= MAX_IDS => {
            let reason = format!("its largest token id is {id}; a token map holds at most {MAX_IDS} ids");
            return Err(Error::Tokenizer(reason));
        }
        Some(id) => id as usize + 1,
        None => 0,
    };
    match vocab_size {
        Some(given) if given < needed => Err(Error::token_map(
            "vocab_size",
            format!("{given} loses token id {}, the tokenizer's largest; at least {needed} is needed", needed - 1),
        )),
        Some(given) => check_length("vocab_size", given).map(|()| given),
        None if needed == 0 => Err(Error::Tokenizer("it has no tokens".into())),
        None => Ok(needed),
    }
}

/// The crate cuts merges at bytes, unchecked: what it quotes need not be UTF-8, and Python would abort on that.
fn tokenizer_error(error: tokenizers::Error) -> Error {
    Error::Tokenizer(String::from_utf8_lossy(error.to_string().as_bytes()).into_owned())
}

/// Damaged JSON can make the `tokenizers` crate panic; the caller gets an error instead.
fn guarded<R>(doing: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let said = String::from_utf8_lossy(said.as_bytes());
        Err(Error::Tokenizer(format!("the tokenizers crate failed while {doing}: {said}")))
    })
}
