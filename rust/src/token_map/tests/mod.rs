//! Tests of the token map without Python.

mod build;
mod file;
mod keys;
mod numbers;

use super::TokenMap;

/// A `tokenizer.json` with this vocabulary; the first token is the unknown one.
fn tokenizer_json(vocab: &[(&str, u32)], decoder: serde_json::Value, added: &[(&str, u32)]) -> Vec<u8> {
    let entries: serde_json::Map<_, _> = vocab.iter().map(|(piece, id)| ((*piece).into(), (*id).into())).collect();
    let added: Vec<_> = added
        .iter()
        .map(|(content, id)| {
            serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        })
        .collect();
    serde_json::to_vec(&serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {"type": "WordLevel", "vocab": entries, "unk_token": vocab.first().map_or("", |(piece, _)| piece)},
    }))
    .unwrap()
}

/// The map of a vocabulary numbered in the order given, decoded piece by piece.
fn map_of(pieces: &[&str]) -> TokenMap {
    let vocab: Vec<_> = pieces.iter().enumerate().map(|(id, piece)| (*piece, id as u32)).collect();
    TokenMap::from_json(&tokenizer_json(&vocab, serde_json::Value::Null, &[]), None, 2).unwrap()
}
