//! Byte-pair tokenizers: the shorter way of reading gives what the crate's own gives, maps and errors.

use serde_json::{Value, json};

use super::super::TokenMap;
use super::super::byte_pairs::read;

/// A tokenizer of byte pairs: pieces as they follow from the merges, an added token inside the vocabulary and one after.
fn byte_pairs() -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<s>"), added(9, "<pad>")],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"<s>": 0, "T": 1, "t": 2, "h": 3, "Th": 4, "th": 5, "Ġ": 6, "\"": 7, "Ġth": 8},
            "merges": ["T h", "t h", "Ġ th"],
        },
    })
}

fn added(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true})
}

fn changed(place: &str, value: Value) -> Value {
    let mut tokenizer = byte_pairs();
    match place.rsplit_once('/') {
        Some((object, name)) => tokenizer.pointer_mut(object).unwrap()[name] = value,
        None => unreachable!("{place}"),
    }
    tokenizer
}

/// The same with a field that the crate passes over and the shorter way does not know.
fn by_the_crate(tokenizer: &Value) -> Vec<u8> {
    let mut tokenizer = tokenizer.clone();
    tokenizer["model"]["of no meaning"] = Value::Null;
    let bytes = serde_json::to_vec(&tokenizer).unwrap();
    assert!(read(&bytes, 1).is_none());
    bytes
}

/// What a caller sees: the numbers, or the message.
fn outcome(bytes: &[u8]) -> Result<(Vec<i32>, Vec<i32>), String> {
    TokenMap::from_json(bytes, Some(12), 2)
        .map(|map| (map.lookup().to_vec(), map.holes().to_vec()))
        .map_err(|error| error.to_string())
}

#[test]
fn plain_tokenizers_are_read_the_shorter_way_and_give_the_same_map() {
    let pairs = json!([["T", "h"], ["t", "h"], ["Ġ", "th"]]);
    let subwords = json!({"<s>": 0, "T": 1, "##h": 2, "Th": 3, "t": 4, "th": 5});
    let mut prefixed = changed("/model/vocab", subwords);
    prefixed["model"]["continuing_subword_prefix"] = json!("##");
    prefixed["model"]["merges"] = json!(["T ##h", "t ##h"]);
    prefixed["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
    let mut fallback = changed("/model/vocab", json!({"<unk>": 0, "<0x41>": 1, "A": 2, "a": 3, "▁a": 5}));
    fallback["model"]["byte_fallback"] = json!(true);
    fallback["model"]["unk_token"] = json!("<unk>");
    fallback["model"]["merges"] = json!([]);
    fallback["decoder"] = json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]});
    let mut normalized = byte_pairs();
    normalized["normalizer"] = json!({"type": "Lowercase"});
    normalized["added_tokens"] = json!([{"id": 9, "content": "PAD", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": true, "special": false}]);
    for (name, tokenizer) in [
        ("lines", byte_pairs()),
        ("pairs", changed("/model/merges", pairs)),
        ("no merges", changed("/model/merges", json!([]))),
        ("no pieces", {
            let mut tokenizer = changed("/model/vocab", json!({}));
            tokenizer["model"]["merges"] = json!([]);
            tokenizer
        }),
        ("a gap", changed("/model/vocab/\"", json!(11))),
        ("dropout", changed("/model/dropout", json!(1))),
        ("no decoder", changed("/decoder", Value::Null)),
        ("an added token of a low id", changed("/added_tokens", json!([added(3, "<x>"), added(4, "h")]))),
        ("prefix", prefixed),
        ("byte fallback", fallback),
        ("a normalised added token", normalized),
    ] {
        let bytes = serde_json::to_vec(&tokenizer).unwrap();
        assert!(read(&bytes, 1).is_some(), "{name}");
        let map = outcome(&bytes);
        assert!(map.is_ok(), "{name}: {map:?}");
        assert_eq!(map, outcome(&by_the_crate(&tokenizer)), "{name}");
        assert_eq!(read(&bytes, 1).unwrap().get_model().largest_id(), largest(&tokenizer), "{name}");
    }
}

fn largest(tokenizer: &Value) -> Option<u32> {
    tokenizer["model"]["vocab"].as_object().unwrap().values().map(|id| id.as_u64().unwrap() as u32).max()
}

#[test]
fn everything_else_is_left_to_the_crate() {
    for (name, refused, tokenizer) in [
        ("a version line", false, changed("/model/merges", json!(["#version: 0.2", "T h", "t h"]))),
        ("both kinds of merges", true, changed("/model/merges", json!(["T h", ["t", "h"]]))),
        ("three parts", true, changed("/model/merges", json!(["T h h"]))),
        ("one part", true, changed("/model/merges", json!(["Th"]))),
        ("a list of three", true, changed("/model/merges", json!([["T", "h", "h"]]))),
        ("a list of one", true, changed("/model/merges", json!([["T"]]))),
        ("merges of numbers", true, changed("/model/merges", json!([1]))),
        ("merges that are null", true, changed("/model/merges", Value::Null)),
        ("an unknown left piece", true, changed("/model/merges", json!(["x h"]))),
        ("an unknown right piece", true, changed("/model/merges", json!(["T x"]))),
        ("an unknown joined piece", true, changed("/model/merges", json!(["h T"]))),
        ("an unknown piece at the end", true, {
            let mut merges = vec![json!("T h"); 10_000];
            merges.push(json!("h T"));
            changed("/model/merges", merges.into())
        }),
        ("a prefix longer than a piece", true, changed("/model/continuing_subword_prefix", json!("####"))),
        ("an id twice", true, changed("/model/vocab/th", json!(4))),
        ("a negative id", true, changed("/model/vocab/th", json!(-1))),
        ("a fractional id", true, changed("/model/vocab/th", json!(5.0))),
        ("an id past 32 bits", true, changed("/model/vocab/th", json!(1_u64 << 32))),
        ("a vocabulary that is a list", true, changed("/model/vocab", json!([["T", 0.0]]))),
        ("dropout above one", true, changed("/model/dropout", json!(1.5))),
        ("a flag that is a number", true, changed("/model/fuse_unk", json!(1))),
        ("another type", true, changed("/model/type", json!("Unigram"))),
        ("an unknown type", true, changed("/model/type", json!("bpe"))),
        ("an unknown decoder", true, changed("/decoder", json!({"type": "Morse"}))),
        ("a model that is a list", true, changed("/model", json!(["BPE", {"T": 0}, []]))),
        ("a model that is null", true, changed("/model", Value::Null)),
    ] {
        let bytes = serde_json::to_vec(&tokenizer).unwrap();
        assert!(read(&bytes, 2).is_none(), "{name}");
        assert_eq!(outcome(&bytes).is_err(), refused, "{name}");
    }
}

#[test]
fn a_field_or_a_piece_written_twice_is_left_to_the_crate() {
    let text = serde_json::to_string(&byte_pairs()).unwrap();
    for (once, twice) in [
        (r#""fuse_unk":false"#, r#""fuse_unk":false,"fuse_unk":false"#),
        (r#""T":1"#, r#""T":7,"T":1"#),
        (r#""merges":["#, r#""merges":[],"merges":["#),
    ] {
        let twice = text.replacen(once, twice, 1);
        assert_ne!(twice, text);
        assert!(read(twice.as_bytes(), 1).is_none(), "{twice}");
        assert_eq!(outcome(twice.as_bytes()), outcome(text.as_bytes()));
    }
}

#[test]
fn a_file_that_ends_early_or_has_a_byte_changed_is_no_other_than_by_the_crate() {
    let text = by_the_crate(&byte_pairs());
    let marker = br#","of no meaning":null"#;
    let at = text.windows(marker.len()).position(|window| window == marker).unwrap();
    let plain = [&text[..at], &text[at + marker.len()..]].concat();
    assert!(read(&plain, 1).is_some());
    for end in 0..plain.len() {
        assert!(outcome(&plain[..end]).is_err(), "{end}");
    }
    let mut taken = 0;
    for i in 0..plain.len() {
        for flip in [1, 2, 16, 128] {
            let (mut ours, mut theirs) = (plain.clone(), text.clone());
            ours[i] ^= flip;
            theirs[if i < at { i } else { i + marker.len() }] ^= flip;
            // Where it is not read the shorter way the two are one.
            if std::panic::catch_unwind(|| read(&ours, 1).is_some()).unwrap_or(false) {
                taken += 1;
                assert_eq!(outcome(&ours), outcome(&theirs), "byte {i} ^ {flip}");
            }
        }
    }
    assert!(taken > 50, "{taken}");
}

#[test]
fn a_piece_written_with_escapes_is_the_same_piece() {
    let text = serde_json::to_string(&byte_pairs()).unwrap();
    let escaped = text.replace("\"Ġth\"", "\"\\u0120th\"").replace("\"Ġ th\"", "\"\\u0120 th\"");
    assert_ne!(escaped, text);
    assert!(read(escaped.as_bytes(), 1).is_some());
    assert_eq!(outcome(escaped.as_bytes()), outcome(text.as_bytes()));
}
