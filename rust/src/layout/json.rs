//! The layout as JSON: complete (neither tokenizer nor random generator is needed to read it) and strict.

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use super::{Align, Columns, HashLayout, IdRange, Layer, Mix, Multipliers, TokenMapId};
use crate::{Error, Result};

/// `format` of the JSON text.
pub(super) const FORMAT: &str = "engram-fast-layout";
/// `version` of the JSON text.
pub(super) const VERSION: u32 = 1;
/// Longest JSON text that is read; no valid layout comes near it.
const MAX_TEXT: usize = 16 << 20;

/// A layout as written, before any number of it is checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    name: String,
    parameters: serde_json::Value,
    orders: Vec<usize>,
    heads: usize,
    max_order: usize,
    columns: Columns,
    mix: Mix,
    word_bits: u32,
    align: Align,
    fill: i64,
    boundary_ids: Vec<i64>,
    ids: IdRange,
    #[serde(deserialize_with = "present")]
    token_map: Option<TokenMapId>,
    adds_offsets: bool,
    layers: Vec<Layer>,
}

/// Makes `null` something that has to be written: serde alone takes a missing field for it.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<TokenMapId>, D::Error> {
    Option::deserialize(deserializer)
}

impl HashLayout {
    /// Reads what [`HashLayout::to_json`] wrote, and checks every number of it.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |reason: String| Error::layout("layout JSON", reason);
        if text.len() > MAX_TEXT {
            return Err(wrong(format!("{} bytes are more than {MAX_TEXT}", text.len())));
        }
        let read: Document = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if read.format != FORMAT {
            return Err(Error::layout("format", format!("{:?} is not {FORMAT:?}", read.format)));
        }
        if read.version != VERSION {
            return Err(Error::layout(
                "version",
                format!("{} is not {VERSION}, the one this release reads", read.version),
            ));
        }
        let mut boundary_ids = read.boundary_ids;
        boundary_ids.sort_unstable();
        boundary_ids.dedup();
        let layout = Self {
            format: read.format,
            version: read.version,
            name: read.name,
            parameters: read.parameters,
            orders: read.orders,
            heads: read.heads,
            max_order: read.max_order,
            columns: read.columns,
            mix: read.mix,
            word_bits: read.word_bits,
            align: read.align,
            fill: read.fill,
            boundary_ids,
            ids: read.ids,
            token_map: read.token_map,
            adds_offsets: read.adds_offsets,
            layers: read.layers,
        };
        layout.validate()?;
        Ok(layout)
    }

    /// The layout as one line of JSON; equal layouts with equal metadata give equal text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a layout holds strings, integers and JSON values only")
    }
}

/// One element of `multipliers`: a number of `[N]`, or a row of `[C][N]`.
enum Element {
    Number(i64),
    Row(Vec<i64>),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("a 64-bit integer or a list of them")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Element, E> {
        Ok(Element::Number(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Element, E> {
        let number = i64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))?;
        Ok(Element::Number(number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> std::result::Result<Element, A::Error> {
        let mut row = Vec::new();
        while let Some(value) = sequence.next_element()? {
            row.push(value);
        }
        Ok(Element::Row(row))
    }
}

/// Either shape of `multipliers`; by hand, because serde's own untagged enums cannot say what was wrong.
impl<'de> Deserialize<'de> for Multipliers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (mut numbers, mut rows) = (Vec::new(), Vec::new());
        for element in Vec::<Element>::deserialize(deserializer)? {
            match element {
                Element::Number(number) => numbers.push(number),
                Element::Row(row) => rows.push(row),
            }
        }
        match (numbers.is_empty(), rows.is_empty()) {
            (_, true) => Ok(Self::Shared(numbers)),
            (true, false) => Ok(Self::PerColumn(rows)),
            (false, false) => Err(de::Error::custom("multipliers mix numbers and lists")),
        }
    }
}
