//! The key of a token: the `tokenizers` crate's own normalizers in the published order.

use std::sync::LazyLock;

use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFD, NFKC, Replace, Sequence, Strip, StripAccents};
use tokenizers::{NormalizedString, Normalizer};

/// Stands for a lone space while the text is stripped, so that " " and "" keep different keys.
const SENTINEL: &str = "\u{e000}";

/// What changes letters.
static LETTERS: LazyLock<Sequence> =
    LazyLock::new(|| Sequence::new(vec![NFKC.into(), NFD.into(), StripAccents.into(), Lowercase.into()]));

/// What changes white space, after the letters.
static SPACES: LazyLock<Sequence> = LazyLock::new(|| {
    let regex = |pattern: &str, content: &str| {
        Replace::new(ReplacePattern::Regex(pattern.into()), content).expect("a constant pattern")
    };
    Sequence::new(vec![
        regex(r"[ \t\r\n]+", " ").into(),
        regex(r"^ $", SENTINEL).into(),
        Strip::new(true, true).into(),
        Replace::new(SENTINEL, " ").expect("a constant pattern").into(),
    ])
});

fn apply(normalizer: &Sequence, text: &str) -> String {
    let mut normalized = NormalizedString::from(text);
    normalizer.normalize(&mut normalized).expect("these normalizers do not fail");
    normalized.get().to_owned()
}

/// What the normalizers make of `text`; may be empty.
///
/// Accents go only after decomposition, lower-casing is per character (a final sigma stays σ), and white space
/// collapses before it is stripped.
///
/// The normalizers keep track of where each character came from and take microseconds for a word, so they are asked
/// only where they do more than is plain: of ASCII, all that the first half changes is case; of a text with white space
/// at its edges only, all that the second does is to strip it.
pub fn normalize_key(text: &str) -> String {
    let letters = if text.is_ascii() { text.to_ascii_lowercase() } else { apply(&LETTERS, text) };
    let inner = letters.trim();
    if inner.is_empty() || inner.contains(|c: char| c.is_whitespace() || SENTINEL.contains(c)) {
        return apply(&SPACES, &letters);
    }
    inner.to_owned()
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
