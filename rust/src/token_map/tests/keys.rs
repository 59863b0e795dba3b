//! Keys: the table of awkward texts, and the order of the normalizers.

use super::super::TOKENIZERS_VERSION;
use super::super::keys::{key, normalize_key};
use super::map_of;

fn key_of(text: &str) -> String {
    key(text.to_owned(), || Some("piece".into())).unwrap()
}

#[test]
fn a_lone_space_and_a_text_that_normalises_to_nothing_keep_different_keys() {
    for (text, expected) in [
        // All equal to one space.
        (" ", " "),
        ("\t", " "),
        ("\n\n", " "),
        ("\u{3000}", " "),
        ("\u{a0}", " "),
        (" \u{301}", " "),
        // Nothing is left: the text itself.
        ("\u{b}", "\u{b}"),
        ("\u{c}", "\u{c}"),
        ("\u{85}", "\u{85}"),
        ("\u{2028}", "\u{2028}"),
        ("\u{301}", "\u{301}"),
        ("\u{345}", "\u{345}"),
        ("", ""),
        // Kept.
        ("\u{200b}", "\u{200b}"),
        ("\u{feff}", "\u{feff}"),
        ("\u{ad}", "\u{ad}"),
        // The sentinel's own code point reads as a space.
        ("\u{e000}", " "),
        ("a\u{e000}b", "a b"),
        (" a ", "a"),
        ("ﬁ", "fi"),
        ("Ⅳ", "iv"),
        ("①", "1"),
        ("㎞", "km"),
        ("ß", "ß"),
        ("İ", "i"),
    ] {
        assert_eq!(key_of(text), expected, "{text:?}");
    }
}

#[test]
fn replacement_characters_take_the_piece() {
    assert_eq!(key_of("\u{fffd}"), "piece");
    assert_eq!(key_of("a\u{fffd}B"), "piece");
    assert_eq!(key("\u{fffd}".into(), || None), None);
}

#[test]
fn lower_casing_is_per_character() {
    assert_eq!(normalize_key("ΣΑΣ"), "σασ");
    let map = map_of(&["<u>", "ΣΑΣ", "σασ", "σας"]);
    let l = map.lookup();
    assert!(l[1] == l[2] && l[1] != l[3]);
}

#[test]
fn accents_go_only_after_decomposition() {
    let map = map_of(&["<u>", "\u{e9}", "e\u{301}", "E", "\u{c5}", "A\u{30a}", "\u{212b}", "\u{1e9b}\u{323}", "s"]);
    let l = map.lookup();
    assert!(l[1] == l[2] && l[2] == l[3] && l[4] == l[5] && l[5] == l[6] && l[7] == l[8]);
    assert_eq!(map.size(), 4);
}

#[test]
fn the_version_written_into_files_is_the_one_of_the_manifest() {
    let manifest = include_str!("../../../../Cargo.toml");
    assert!(manifest.contains(&format!("tokenizers = {{ version = \"{TOKENIZERS_VERSION}\"")));
}
