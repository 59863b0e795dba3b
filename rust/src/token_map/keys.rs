//! The key of a token: the `tokenizers` crate's own normalizers in the published order.

use std::sync::LazyLock;

use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFD, NFKC, Replace, Sequence, Strip, StripAccents};
use tokenizers::{NormalizedString, Normalizer};

/// The release series of the `tokenizers` crate in `Cargo.toml`; a test compares the two.
pub(super) const TOKENIZERS_VERSION: &str = "0.23";

/// Stands for a lone space while the text is stripped, so that " " and "" keep different keys.
const SENTINEL: &str = "\u{e000}";

static NORMALIZER: LazyLock<Sequence> = LazyLock::new(|| {
    let regex = |pattern: &str, content: &str| {
        Replace::new(ReplacePattern::Regex(pattern.into()), content).expect("a constant pattern")
    };
    Sequence::new(vec![
        NFKC.into(),
        NFD.into(),
        StripAccents.into(),
        Lowercase.into(),
        regex(r"[ \t\r\n]+", " ").into(),
        regex(r"^ $", SENTINEL).into(),
        Strip::new(true, true).into(),
        Replace::new(SENTINEL, " ").expect("a constant pattern").into(),
    ])
});

/// What the normalizers make of `text`; may be empty.
///
/// Accents go only after decomposition, lower-casing is per character (a final sigma stays σ), and white space
/// collapses before it is stripped.
pub fn normalize_key(text: &str) -> String {
    let mut normalized = NormalizedString::from(text);
    NORMALIZER.normalize(&mut normalized).expect("these normalizers do not fail");
    normalized.get().to_owned()
}

/// The key of a token that decodes to `text`: the raw piece where the text holds U+FFFD, else the normalised text,
/// else, where that is empty, the text itself. `None`: a piece is needed and there is none.
pub(super) fn key(text: String, piece: impl FnOnce() -> Option<String>) -> Option<String> {
    if text.contains('\u{fffd}') {
        return piece();
    }
    let normalized = normalize_key(&text);
    Some(if normalized.is_empty() { text } else { normalized })
}
