//! Reading, checking and identifying layouts: what is accepted, what is refused and by which name.

use serde_json::{Value, json};

use super::*;
use crate::Result;

fn xor() -> Value {
    json!({
        "format": "engram-fast-layout", "version": 1, "name": "tiny", "parameters": {"seed": 0, "ratio": 100.567},
        "orders": [2, 3], "heads": 2, "max_order": 3, "columns": "order-major", "mix": "xor", "word_bits": 64,
        "align": "newest", "fill": 2, "boundary_ids": [7, 5, 7],
        "ids": {"limit": 9, "negative": "enter", "too_large": "error"},
        "token_map": {"digest": "0123456789abcdef".repeat(4), "length": 10, "size": 8},
        "adds_offsets": true,
        "layers": [
            {"layer_id": 9, "multipliers": [1, -3, i64::MAX], "moduli": [97, 101, 1, 103], "offsets": [0, 97, 198, 199],
             "rows": 302},
            {"layer_id": 0, "multipliers": [7, 0, i64::MIN], "moduli": [97, 101, 1, 103], "offsets": [9, 9, 9, 9],
             "rows": 400},
        ],
    })
}

fn sum() -> Value {
    json!({
        "format": "engram-fast-layout", "version": 1, "name": "tiny", "parameters": {},
        "orders": [1, 3], "heads": 2, "max_order": 3, "columns": "function-major", "mix": "sum", "word_bits": 64,
        "align": "newest", "fill": 0, "boundary_ids": [], "token_map": null, "adds_offsets": false,
        "ids": {"limit": null, "negative": "error", "too_large": "enter"},
        "layers": [{"layer_id": 0, "multipliers": [[1, 0, 0], [9, 3, 1], [2, 0, 0], [16, 4, 0]], "moduli": [5, 6, 7, 8],
                    "offsets": [0, 5, 11, 18], "rows": 26}],
    })
}

fn read(value: &Value) -> Result<HashLayout> {
    HashLayout::from_json(&value.to_string())
}

#[test]
fn derived_numbers() {
    let layout = read(&xor()).unwrap();
    assert_eq!((layout.columns(), layout.column_orders()), (4, vec![2, 2, 3, 3]));
    assert_eq!((layout.max_row(true), layout.max_row(false)), (301, 102));
    assert_eq!(layout.boundary_ids, [5, 7]);
    let mut beyond = xor();
    (beyond["boundary_ids"], beyond["ids"]["too_large"]) = (json!([12]), json!("enter"));
    assert_eq!(read(&beyond).unwrap().boundary_ids, [12], "an id past the limit, where such ids are hashed");
    assert_eq!(read(&sum()).unwrap().column_orders(), [1, 3, 1, 3]);
}

#[test]
fn round_trip_is_exact() {
    for value in [xor(), sum()] {
        let layout = read(&value).unwrap();
        let text = layout.to_json();
        let again = HashLayout::from_json(&text).unwrap();
        assert_eq!(again, layout);
        assert_eq!(again.to_json(), text);
        assert_eq!(again.digest(), layout.digest());
    }
}

/// Changes that keep a layout valid: the first ones are metadata, every other one must change the digest.
#[test]
fn digest_is_of_the_numbers_alone() {
    let digest = |pointer: &str, value: Value| {
        let mut document = xor();
        *document.pointer_mut(pointer).unwrap() = value;
        read(&document).unwrap_or_else(|error| panic!("{pointer}: {error}")).digest()
    };
    let original = read(&xor()).unwrap().digest();
    for (pointer, value) in [("/name", json!("other")), ("/parameters", json!({})), ("/boundary_ids", json!([5, 7]))] {
        assert_eq!(digest(pointer, value), original, "{pointer}");
    }
    let mut digests = vec![original];
    for (pointer, value) in [
        ("/orders", json!([1, 3])),
        ("/align", json!("oldest")),
        ("/fill", json!(3)),
        ("/boundary_ids", json!([5])),
        ("/ids/limit", json!(10)),
        ("/ids/negative", json!("error")),
        ("/ids/too_large", json!("enter")),
        ("/token_map/digest", json!("0".repeat(64))),
        ("/token_map/length", json!(11)),
        ("/token_map/size", json!(9)),
        ("/token_map", json!(null)),
        ("/adds_offsets", json!(false)),
        ("/layers/0/layer_id", json!(8)),
        ("/layers/0/multipliers/0", json!(5)),
        ("/layers/1/multipliers/2", json!(5)),
        ("/layers/0/moduli/1", json!(100)),
        ("/layers/1/offsets/1", json!(10)),
        ("/layers/0/rows", json!(303)),
    ] {
        digests.push(digest(pointer, value));
    }
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

#[test]
fn every_wrong_number_is_refused_by_name() {
    let layer = "/layers/0";
    let table: &[(Value, &str, Value, &str)] = &[
        (xor(), "/format", json!("other"), "format"),
        (xor(), "/version", json!(2), "version"),
        (xor(), "/name", json!(""), "name"),
        (xor(), "/columns", json!("function-major"), "columns"),
        (xor(), "/parameters", json!([]), "parameters"),
        (xor(), "/orders", json!([]), "orders"),
        (xor(), "/orders", json!([3, 2]), "orders"),
        (xor(), "/orders", json!([3, 3]), "orders"),
        (xor(), "/orders", json!([0, 3]), "orders"),
        (xor(), "/orders", json!([2, MAX_ORDER + 1]), "orders"),
        (xor(), "/max_order", json!(4), "max_order"),
        (xor(), "/heads", json!(0), "heads"),
        (xor(), "/heads", json!(3), "layers[0].moduli"),
        (xor(), "/heads", json!(4097), "heads"),
        (xor(), "/heads", json!(u64::MAX), "heads"),
        (xor(), "/word_bits", json!(16), "word_bits"),
        (xor(), "/word_bits", json!(32), "layers[0].multipliers"),
        (sum(), "/align", json!("oldest"), "align"),
        (xor(), "/mix", json!("sum"), "layers[0].multipliers"),
        (sum(), "/mix", json!("xor"), "columns"),
        (xor(), "/boundary_ids", json!([9]), "boundary_ids"),
        (xor(), "/boundary_ids", json!([-1]), "boundary_ids"),
        (xor(), "/boundary_ids", json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "boundary_ids"),
        (sum(), "/boundary_ids", json!([-1]), "boundary_ids"),
        (xor(), "/ids/limit", json!(0), "ids.limit"),
        (xor(), "/ids/limit", json!(11), "ids.limit"),
        (xor(), "/ids/limit", json!(null), "ids.limit"),
        (sum(), "/ids/too_large", json!("error"), "ids.limit"),
        (xor(), "/token_map/digest", json!("abc"), "token_map.digest"),
        (xor(), "/token_map/digest", json!("A".repeat(64)), "token_map.digest"),
        (xor(), "/token_map/length", json!(0), "token_map.length"),
        (xor(), "/token_map/length", json!(1u64 << 31), "token_map.length"),
        (xor(), "/token_map/size", json!(0), "token_map.size"),
        (xor(), "/token_map/size", json!(11), "token_map.size"),
        (xor(), "/layers", json!([]), "layers"),
        (xor(), "/layers/0/layer_id", json!(-1), "layers[0].layer_id"),
        (xor(), "/layers/1/layer_id", json!(9), "layers[1].layer_id"),
        (xor(), "/layers/0/multipliers", json!([]), "layers[0].multipliers"),
        (xor(), "/layers/0/multipliers", json!([1, 2]), "layers[0].multipliers"),
        (sum(), "/layers/0/multipliers", json!([[1, 0, 0]]), "layers[0].multipliers"),
        (sum(), "/layers/0/multipliers/1", json!([1]), "layers[0].multipliers[1]"),
        (sum(), "/layers/0/multipliers/0/1", json!(1), "layers[0].multipliers[0]"),
        (xor(), "/layers/0/moduli", json!([1]), "layers[0].moduli"),
        (xor(), "/layers/0/moduli/2", json!(0), "layers[0].moduli[2]"),
        (xor(), "/layers/0/moduli/2", json!(-5), "layers[0].moduli[2]"),
        (xor(), "/layers/0/moduli/2", json!(i64::MAX), "layers[0].offsets[2]"),
        (xor(), "/layers/0/offsets", json!([]), "layers[0].offsets"),
        (xor(), "/layers/0/offsets/0", json!(-1), "layers[0].offsets[0]"),
        (xor(), "/layers/0/offsets/0", json!(i64::MAX), "layers[0].offsets[0]"),
        (xor(), "/layers/0/rows", json!(301), "layers[0].offsets[3]"),
        (xor(), layer, json!({}), "layout JSON"),
    ];
    for (document, pointer, value, field) in table {
        let mut document = document.clone();
        *document.pointer_mut(pointer).unwrap() = value.clone();
        let error = read(&document).expect_err(pointer).to_string();
        assert!(error.starts_with(&format!("{field}: ")), "{pointer} = {value}: {error}");
    }
}

#[test]
fn hostile_text_is_refused() {
    let valid = xor().to_string();
    for cut in 0..valid.len() {
        assert!(HashLayout::from_json(&valid[..cut]).is_err(), "{cut}");
    }
    let deep = "[".repeat(100_000);
    let long = " ".repeat(17 << 20);
    for text in ["", "null", "[]", "{}", "1e999", &deep, &long, &format!("{valid}x"), &format!("{valid}{valid}")] {
        assert!(HashLayout::from_json(text).is_err());
    }
    for key in xor().as_object().unwrap().keys() {
        let mut document = xor();
        document.as_object_mut().unwrap().remove(key);
        assert!(read(&document).unwrap_err().to_string().contains(&format!("missing field `{key}`")), "{key}");
        let twice = valid.replacen('{', &format!("{{\"{key}\":{},", xor()[key]), 1);
        assert!(HashLayout::from_json(&twice).unwrap_err().to_string().contains("duplicate"), "{key}");
    }
    let edits = [
        ("\"heads\":2", "\"heads\":2.0"),
        ("\"heads\":2", "\"heads\":true"),
        ("\"heads\":2", "\"heads\":-2"),
        ("\"heads\":2", "\"heads\":NaN"),
        ("\"fill\":2", "\"fill\":9223372036854775808"),
        ("\"fill\":2", "\"fill\":\"2\""),
        ("[1,-3,", "[1.5,-3,"),
        ("[1,-3,", "[[1],-3,"),
        ("[1,-3,", "[9223372036854775808,-3,"),
        ("\"mix\":\"xor\"", "\"mix\":\"XOR\""),
        ("\"fill\":2", "\"fill\":2,\"extra\":1"),
    ];
    for (old, new) in edits {
        assert!(valid.contains(old), "{old}");
        assert!(HashLayout::from_json(&valid.replacen(old, new, 1)).is_err(), "{new}");
    }
}

#[test]
fn too_many_numbers_are_refused() {
    let mut document = xor();
    document["layers"] = json!(
        (0..4097)
            .map(|_| json!({
        "layer_id": 0, "multipliers": [1], "moduli": [1], "offsets": [0], "rows": 1}))
            .collect::<Vec<_>>()
    );
    assert!(read(&document).unwrap_err().to_string().starts_with("layers: 4097 layers"));
    let mut document = sum();
    document["heads"] = json!(2048);
    document["layers"] = json!(vec![document["layers"][0].clone(); 30]);
    assert!(read(&document).unwrap_err().to_string().starts_with("layers: 368640 moduli"));
}
