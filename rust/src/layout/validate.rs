//! Every number of a layout, checked before anything computes with it.

use std::collections::HashSet;

use super::{Align, Columns, HashLayout, Layer, MAX_ORDER, Mix, Multipliers, Outside};
use crate::{Error, Result};

/// Most layers of a layout.
pub const MAX_LAYERS: usize = 4096;
/// Most columns of a layer.
pub const MAX_COLUMNS: usize = 4096;
/// Most moduli, or coefficients, of all layers together; bounds what reading a hostile file can cost.
pub const MAX_NUMBERS: usize = 1 << 18;
/// Most ids that end the look-back; they are compared one by one.
pub const MAX_BOUNDARY_IDS: usize = 256;

fn refuse<T>(field: impl Into<String>, reason: impl Into<String>) -> Result<T> {
    Err(Error::layout(field, reason))
}

impl HashLayout {
    /// Checks every number; [`HashLayout::from_json`] has already done so for what it returns.
    pub fn validate(&self) -> Result<()> {
        self.check_metadata()?;
        self.check_shape()?;
        self.check_ids()?;
        self.check_token_map()?;
        let orders = self.column_orders();
        let mut seen = HashSet::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let field = format!("layers[{index}]");
            if layer.layer_id < 0 {
                return refuse(format!("{field}.layer_id"), format!("{} is below 0", layer.layer_id));
            }
            if !seen.insert(layer.layer_id) {
                return refuse(format!("{field}.layer_id"), format!("{} occurs twice", layer.layer_id));
            }
            self.check_multipliers(layer, &orders, &format!("{field}.multipliers"))?;
            self.check_tables(layer, &field)?;
        }
        Ok(())
    }

    fn check_metadata(&self) -> Result<()> {
        if self.name.is_empty() || self.name.len() > 256 {
            return refuse("name", format!("{} bytes are not in 1..=256", self.name.len()));
        }
        if !self.parameters.is_object() {
            return refuse("parameters", "not an object");
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<()> {
        if self.orders.is_empty() {
            return refuse("orders", "no orders");
        }
        if let Some(pair) = self.orders.windows(2).find(|pair| pair[0] >= pair[1]) {
            return refuse("orders", format!("{} after {}: orders must ascend", pair[1], pair[0]));
        }
        if let Some(order) = self.orders.iter().find(|&&order| order == 0 || order > MAX_ORDER) {
            return refuse("orders", format!("{order} is not in 1..={MAX_ORDER}"));
        }
        if self.orders.last() != Some(&self.max_order) {
            return refuse("max_order", format!("{} is not the largest order", self.max_order));
        }
        if self.heads == 0 || self.heads > MAX_COLUMNS || self.columns() > MAX_COLUMNS {
            let columns = format!("{} heads for {} orders", self.heads, self.orders.len());
            return refuse("heads", format!("{columns}: a layer has 1..={MAX_COLUMNS} columns"));
        }
        if self.word_bits != 64 && self.word_bits != 32 {
            return refuse("word_bits", format!("{} is neither 64 nor 32", self.word_bits));
        }
        if self.layers.is_empty() || self.layers.len() > MAX_LAYERS {
            return refuse("layers", format!("{} layers are not in 1..={MAX_LAYERS}", self.layers.len()));
        }
        let numbers = self.layers.len() * self.columns() * if self.mix == Mix::Sum { self.max_order } else { 1 };
        if numbers > MAX_NUMBERS {
            return refuse("layers", format!("{numbers} moduli or coefficients are more than {MAX_NUMBERS}"));
        }
        if self.mix == Mix::Sum && self.align == Align::Oldest {
            return refuse("align", "\"oldest\" needs the mix \"xor\"");
        }
        if self.mix == Mix::Xor && self.columns == Columns::FunctionMajor {
            return refuse("columns", "\"function-major\" needs the mix \"sum\"");
        }
        self.check_word("fill", self.fill)
    }

    /// A number that takes part in the arithmetic must be one of its words.
    fn check_word(&self, field: &str, value: i64) -> Result<()> {
        if self.word_bits == 32 && i32::try_from(value).is_err() {
            return refuse(field, format!("{value} does not fit the layout's 32 bits"));
        }
        Ok(())
    }

    fn check_ids(&self) -> Result<()> {
        let limit = self.ids.limit;
        if let Some(limit) = limit.filter(|&limit| limit < 1) {
            return refuse("ids.limit", format!("{limit} is below 1"));
        }
        if limit.is_none() && self.ids.too_large == Outside::Error {
            return refuse("ids.limit", "null, yet too large ids are an error");
        }
        if self.boundary_ids.len() > MAX_BOUNDARY_IDS {
            let count = self.boundary_ids.len();
            return refuse("boundary_ids", format!("{count} ids are more than {MAX_BOUNDARY_IDS}"));
        }
        let negative_allowed = limit.is_none() && self.ids.negative == Outside::Enter;
        // Where ids past the limit are hashed, one of them can end a document: an added token outside the token map.
        let largest = limit.filter(|_| self.ids.too_large == Outside::Error);
        for &id in &self.boundary_ids {
            if largest.is_some_and(|limit| id >= limit) || (id < 0 && !negative_allowed) {
                let known = largest.map_or("of the layout".to_owned(), |limit| format!("in 0..{limit}"));
                return refuse("boundary_ids", format!("{id} is not a token id {known}"));
            }
        }
        Ok(())
    }

    fn check_token_map(&self) -> Result<()> {
        let Some(map) = &self.token_map else { return Ok(()) };
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if map.digest.len() != 64 || !map.digest.bytes().all(hex) {
            return refuse("token_map.digest", "not 64 lower-case hex digits");
        }
        if map.length == 0 || map.length > i32::MAX as usize {
            return refuse("token_map.length", format!("{} is not in 1..={}", map.length, i32::MAX));
        }
        if map.size == 0 || map.size > map.length {
            return refuse("token_map.size", format!("{} is not in 1..={} (its length)", map.size, map.length));
        }
        match self.ids.limit {
            Some(limit) if limit as u64 <= map.length as u64 => Ok(()),
            Some(limit) => refuse("ids.limit", format!("{limit} is past the token map of {} ids", map.length)),
            None => refuse("ids.limit", format!("null, but the token map has {} ids", map.length)),
        }
    }

    fn check_multipliers(&self, layer: &Layer, orders: &[usize], field: &str) -> Result<()> {
        let wide = |value: &i64| self.check_word(field, *value);
        match (&layer.multipliers, self.mix) {
            (Multipliers::Shared(multipliers), Mix::Xor) => {
                if multipliers.len() != self.max_order {
                    return refuse(field, format!("{} numbers, expected {}", multipliers.len(), self.max_order));
                }
                multipliers.iter().try_for_each(wide)
            }
            (Multipliers::PerColumn(rows), Mix::Sum) => {
                if rows.len() != orders.len() {
                    return refuse(field, format!("{} rows for {} columns", rows.len(), orders.len()));
                }
                for (column, (row, &order)) in rows.iter().zip(orders).enumerate() {
                    if row.len() != self.max_order {
                        let count = row.len();
                        return refuse(
                            format!("{field}[{column}]"),
                            format!("{count} numbers, expected {}", self.max_order),
                        );
                    }
                    if let Some(value) = row[order..].iter().find(|&&value| value != 0) {
                        return refuse(
                            format!("{field}[{column}]"),
                            format!("{value} past the column's order {order}"),
                        );
                    }
                    row.iter().try_for_each(wide)?;
                }
                Ok(())
            }
            (Multipliers::Shared(_), Mix::Sum) => refuse(field, "the mix \"sum\" needs one list per column"),
            (Multipliers::PerColumn(_), Mix::Xor) => refuse(field, "the mix \"xor\" needs one list for all columns"),
        }
    }

    fn check_tables(&self, layer: &Layer, field: &str) -> Result<()> {
        let columns = self.columns();
        for (name, list) in [("moduli", &layer.moduli), ("offsets", &layer.offsets)] {
            if list.len() != columns {
                return refuse(format!("{field}.{name}"), format!("{} numbers for {columns} columns", list.len()));
            }
        }
        for (column, (&modulus, &offset)) in layer.moduli.iter().zip(&layer.offsets).enumerate() {
            if modulus < 1 {
                return refuse(format!("{field}.moduli[{column}]"), format!("{modulus} is below 1"));
            }
            self.check_word(&format!("{field}.moduli[{column}]"), modulus)?;
            if offset < 0 {
                return refuse(format!("{field}.offsets[{column}]"), format!("{offset} is below 0"));
            }
            if offset.checked_add(modulus).is_none_or(|end| end > layer.rows) {
                let ends = format!("offset {offset} and modulus {modulus} end past {} rows", layer.rows);
                return refuse(format!("{field}.offsets[{column}]"), ends);
            }
        }
        Ok(())
    }
}
