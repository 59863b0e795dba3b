//! Building: decoders, holes, sizes, damaged tokenizers.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::{MAX_IDS, TokenMap};
use super::{map_of, tokenizer_json};
use crate::Error;

fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})
}

/// The byte-level alphabet in the order of the bytes.
fn alphabet() -> Vec<String> {
    let printable =
        |byte: u32| (33..=126).contains(&byte) || (161..=172).contains(&byte) || (174..=255).contains(&byte);
    let mut next = 256;
    (0..256u32)
        .map(|byte| {
            let code = if printable(byte) {
                byte
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).unwrap().to_string()
        })
        .collect()
}

#[test]
fn bytes_that_are_no_text_are_told_apart_by_their_piece() {
    let mut pieces = alphabet();
    pieces.extend(["Ã¦", "ï¿½", "Ġthe", "The", "ĠĠ"].map(String::from));
    let vocab: Vec<_> = pieces.iter().enumerate().map(|(id, piece)| (piece.as_str(), id as u32)).collect();
    let map = TokenMap::from_json(&tokenizer_json(&vocab, byte_level(), &[]), None, 2).unwrap();
    let l = map.lookup();
    let high: HashSet<_> = (128..256).map(|byte| l[byte]).collect();
    assert_eq!(high.len(), 128);
    assert_eq!(l[0xe6], l[256], "the piece of byte 0xE6 is the letter that id 256 decodes to");
    assert_eq!(l[258], l[259]);
    assert_eq!(l[0x20], l[260]);
    assert!(!l[..256].contains(&l[257]), "a genuine U+FFFD keeps a key of its own");
}

#[test]
fn a_decoder_that_strips_one_space_leaves_the_empty_key() {
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    let pieces = ["<unk>", "▁", "▁▁", "▁the", "the", "The", "▁▁the", "▁in▁the", "<0x20>", "<0x0A>", "<0xE2>"];
    let vocab: Vec<_> = pieces.iter().enumerate().map(|(id, piece)| (*piece, id as u32)).collect();
    let map = TokenMap::from_json(&tokenizer_json(&vocab, decoder, &[]), Some(13), 1).unwrap();
    let l = map.lookup();
    assert!(l[1] == l[8] && l[2] == l[9] && l[1] != l[2]);
    assert!(l[3] == l[4] && l[4] == l[5] && l[5] == l[6] && l[7] != l[3]);
    assert_eq!(HashSet::from([l[10], l[1], l[2]]).len(), 3);
    assert_eq!(map.holes(), [11, 12]);
    assert!(l[11] == l[1] && l[12] == l[1], "holes have the empty key as well");
}

#[test]
fn ids_run_to_the_largest_one_and_gaps_are_holes() {
    let json = tokenizer_json(&[("a", 0), ("b", 1), ("c", 2), ("zz", 7)], Value::Null, &[("<pad>", 4)]);
    let map = TokenMap::from_json(&json, None, 1).unwrap();
    assert_eq!(map.len(), 8);
    assert_eq!(map.lookup(), [0, 1, 2, 3, 4, 3, 3, 5]);
    assert_eq!(map.holes(), [3, 5, 6]);
}

#[test]
fn a_vocab_size_pads_but_never_loses_an_id() {
    let json = tokenizer_json(&[("a", 0), ("b", 1)], Value::Null, &[("X", 2), ("<e>", 3)]);
    let map = TokenMap::from_json(&json, Some(8), 1).unwrap();
    assert_eq!((map.len(), map.holes()), (8, &[4, 5, 6, 7][..]));
    for lost in [0, 3] {
        let error = TokenMap::from_json(&json, Some(lost), 1).unwrap_err();
        assert!(matches!(&error, Error::TokenMap { field, .. } if *field == "vocab_size"), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("{lost} loses token id 3")), "{message}");
    }
    assert!(TokenMap::from_json(&json, Some(MAX_IDS + 1), 1).is_err());
}

#[test]
fn an_absurd_id_is_refused_before_memory_is_reserved() {
    for id in [MAX_IDS as u32, 4_000_000_000, u32::MAX] {
        let error =
            TokenMap::from_json(&tokenizer_json(&[("a", 0), ("b", id)], Value::Null, &[]), None, 1).unwrap_err();
        assert!(error.to_string().contains(&id.to_string()), "{error}");
    }
    let added = tokenizer_json(&[("a", 0)], Value::Null, &[("<far>", 4_000_000_000)]);
    // The crate itself may number an added token anew; either way nothing large is made.
    assert!(TokenMap::from_json(&added, None, 1).map_or(true, |map| map.len() < 10));
}

#[test]
fn what_is_no_tokenizer_is_an_error() {
    for bytes in
        [&b""[..], b"{}", b"[]", b"\xff\xfe", b"{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": -1}}}"]
    {
        assert!(matches!(TokenMap::from_json(bytes, None, 1), Err(Error::Tokenizer(_))), "{bytes:?}");
    }
    assert!(matches!(TokenMap::from_json(&tokenizer_json(&[], Value::Null, &[]), None, 1), Err(Error::Tokenizer(_))));
}

#[test]
fn a_folder_stands_for_the_file_in_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        matches!(TokenMap::from_file(folder.path(), None, 1), Err(Error::Io { path, .. }) if path.ends_with("tokenizer.json"))
    );
    let file = folder.path().join("tokenizer.json");
    std::fs::write(&file, tokenizer_json(&[("A", 0), ("a", 1)], Value::Null, &[])).unwrap();
    let map = TokenMap::from_file(folder.path(), None, 1).unwrap();
    assert_eq!(map, TokenMap::from_file(&file, None, 1).unwrap());
    assert_eq!(map.lookup(), [0, 0]);
    std::fs::write(&file, "{").unwrap();
    let message = TokenMap::from_file(folder.path(), None, 1).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json"), "{message}");
}

#[test]
fn any_number_of_threads_gives_the_same_map() {
    let pieces: Vec<String> = (0..10_000).map(|i| format!("Tok{}", i / 3)).collect();
    let texts: Vec<_> = pieces.iter().map(Some).collect();
    let one = TokenMap::from_pieces(&texts, &texts, "pieces", 1).unwrap();
    for threads in [2, 3, 8] {
        assert_eq!(one, TokenMap::from_pieces(&texts, &texts, "pieces", threads).unwrap());
    }
    assert_eq!(one.size(), 3334);
}

#[test]
fn pieces_must_match_the_texts() {
    let error = TokenMap::from_pieces(&[Some("a")], &[], "pieces", 1).unwrap_err();
    assert!(matches!(error, Error::TokenMap { field, .. } if field == "pieces"));
    assert!(TokenMap::from_pieces::<&str>(&[], &[], "pieces", 1).is_err());
    assert!(TokenMap::from_pieces(&[Some("\u{fffd}")], &[None], "pieces", 1).is_err());
    let map = TokenMap::from_pieces(&[Some("B"), None, Some("b"), None], &[None; 4], "pieces", 1).unwrap();
    assert_eq!((map.lookup(), map.holes()), (&[0, 1, 0, 1][..], &[1, 3][..]));
}

#[test]
fn equal_sizes_do_not_make_equal_maps() {
    let a = map_of(&["<u>", "The", "the", "dog"]);
    let b = map_of(&["<u>", "The", "dog", "the"]);
    assert_eq!(a.size(), b.size());
    assert_ne!(a, b);
    assert_ne!(a.digest(), b.digest());
}

#[test]
fn a_panic_inside_the_tokenizers_crate_is_an_error() {
    // This decoder strips more from the right than there is.
    let decoder = json!({"type": "Strip", "content": " ", "start": 0, "stop": 5});
    let json = tokenizer_json(&[("a", 0), (" ", 1)], decoder, &[]);
    let message = TokenMap::from_json(&json, None, 1).unwrap_err().to_string();
    assert!(message.contains("failed while decoding"), "{message}");
}
