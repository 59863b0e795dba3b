//! A byte-pair tokenizer read without its table of merges, which decoding does not need and which takes most of the time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::{
    DecoderWrapper, Model, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Token, TokenizerImpl,
};

use crate::pool;

/// A tokenizer as the crate reads it from a file, around a model of ours or its own.
pub(super) type Around<M> =
    TokenizerImpl<M, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Merges that one thread checks at a time.
const PIECE: usize = 4096;

/// The tokenizer in `bytes` if its model is byte pairs, written plainly, and every merge joins two pieces to a third.
/// Of all others, the damaged ones among them, this says nothing: the crate's own reader takes or refuses them.
pub(super) fn read(bytes: &[u8], threads: usize) -> Option<Around<BytePairs<'_>>> {
    let tokenizer: Around<BytePairs> = serde_json::from_slice(bytes).ok()?;
    tokenizer.get_model().merges_hold(threads).then_some(tokenizer)
}

/// The pieces of the vocabulary and their ids, neither of them twice.
pub(super) struct BytePairs<'a> {
    ids: HashMap<Cow<'a, str>, u32>,
    /// Ascending ids. Not a list with the id as place: one absurd id would make it huge.
    pieces: Vec<(u32, Cow<'a, str>)>,
    merges: Vec<Merge<'a>>,
    /// Bytes that the second piece of a merge loses.
    prefix: usize,
}

impl BytePairs<'_> {
    pub(super) fn largest_id(&self) -> Option<u32> {
        self.pieces.last().map(|(id, _)| *id)
    }

    /// What the crate checks while it makes its table: a vocabulary that lacks pieces is no whole tokenizer.
    fn merges_hold(&self, threads: usize) -> bool {
        let hold = AtomicBool::new(true);
        let chunks: Vec<_> = self.merges.chunks(PIECE).collect();
        pool::for_each(chunks.len(), threads, |i| {
            let mut joined = String::new();
            if !chunks[i].iter().all(|merge| self.holds(merge, &mut joined)) {
                hold.store(false, Ordering::Relaxed);
            }
        });
        hold.into_inner()
    }

    fn holds(&self, Merge { left, right, .. }: &Merge, joined: &mut String) -> bool {
        let Some(rest) = right.get(self.prefix..) else { return false };
        joined.clear();
        joined.push_str(left);
        joined.push_str(rest);
        [left, right, joined.as_str()].into_iter().all(|piece| self.ids.contains_key(piece))
    }
}

impl Model for BytePairs<'_> {
    type Trainer = BpeTrainer;

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        let place = self.pieces.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.pieces[place].1.to_string())
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.ids.iter().map(|(piece, id)| (piece.to_string(), *id)).collect()
    }

    fn get_vocab_size(&self) -> usize {
        self.ids.len()
    }

    fn tokenize(&self, _: &str) -> tokenizers::Result<Vec<Token>> {
        Err("it was read for decoding only".into())
    }

    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Err("it was read for decoding only".into())
    }

    fn get_trainer(&self) -> BpeTrainer {
        BpeTrainer::default()
    }
}

/// Every field that the crate writes. Duplicates and other fields are for its own reader to judge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(rename = "type")]
    _type: Kind,
    dropout: Option<f64>,
    #[serde(rename = "unk_token")]
    _unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    #[serde(rename = "end_of_word_suffix")]
    _end_of_word_suffix: Option<String>,
    #[serde(rename = "fuse_unk")]
    _fuse_unk: Option<bool>,
    #[serde(rename = "byte_fallback")]
    _byte_fallback: Option<bool>,
    #[serde(rename = "ignore_merges")]
    _ignore_merges: Option<bool>,
    #[serde(borrow)]
    vocab: Vocab<'a>,
    #[serde(borrow)]
    merges: Vec<Merge<'a>>,
}

#[derive(Deserialize)]
enum Kind {
    #[serde(rename = "BPE")]
    BytePairs,
}

/// Borrowed from the file unless it is written with escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for BytePairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields<'de>, A::Error> {
                Fields::deserialize(MapAccessDeserializer::new(map))
            }
        }
        // By way of a visitor: derived code would take a list as well.
        let fields = deserializer.deserialize_map(Object)?;
        if fields.dropout.is_some_and(|p| !(0.0..=1.0).contains(&(p as f32))) {
            return Err(D::Error::custom("dropout is not in 0..=1"));
        }
        if !fields.merges.windows(2).all(|pair| pair[0].is_line == pair[1].is_line) {
            return Err(D::Error::custom("merges are of two kinds"));
        }
        let Vocab { ids, pieces } = fields.vocab;
        let prefix = fields.continuing_subword_prefix.map_or(0, |prefix| prefix.len());
        Ok(Self { ids, pieces, merges: fields.merges, prefix })
    }
}

struct Vocab<'a> {
    ids: HashMap<Cow<'a, str>, u32>,
    pieces: Vec<(u32, Cow<'a, str>)>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vocab<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab<'de>, A::Error> {
                let mut pieces = Vec::new();
                while let Some((Text(piece), id)) = map.next_entry()? {
                    pieces.push((id, piece));
                }
                let ids: HashMap<_, _> = pieces.iter().map(|(id, piece)| (piece.clone(), *id)).collect();
                // Files are in this order already.
                pieces.sort_unstable_by_key(|(id, _)| *id);
                // What is there twice is for the crate's reader, and for the refusal behind it.
                if ids.len() < pieces.len() || pieces.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(A::Error::custom("a piece or an id is there twice"));
                }
                Ok(Vocab { ids, pieces })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Two pieces, written as a list of two or as one line.
struct Merge<'a> {
    left: Cow<'a, str>,
    right: Cow<'a, str>,
    is_line: bool,
}

/// The only two parts of a line; `None` for a version line, which the crate leaves out.
fn parts(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ').filter(|(_, right)| !right.contains(' ') && !line.starts_with("#version"))
}

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Merge<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two pieces")
            }

            fn visit_borrowed_str<E: Error>(self, line: &'de str) -> Result<Merge<'de>, E> {
                let (left, right) = parts(line).ok_or_else(|| E::custom("not two pieces"))?;
                Ok(Merge { left: left.into(), right: right.into(), is_line: true })
            }

            fn visit_str<E: Error>(self, line: &str) -> Result<Merge<'de>, E> {
                let (left, right) = parts(line).ok_or_else(|| E::custom("not two pieces"))?;
                Ok(Merge { left: left.to_owned().into(), right: right.to_owned().into(), is_line: true })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge<'de>, A::Error> {
                match (list.next_element()?, list.next_element()?) {
                    (Some(Text(left)), Some(Text(right))) => Ok(Merge { left, right, is_line: false }),
                    _ => Err(A::Error::invalid_length(1, &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}
