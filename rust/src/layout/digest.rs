//! What identifies a layout: sha256 over its numbers and its token map's digest, never over a name or an origin.

use sha2::{Digest, Sha256};

use super::{Align, Columns, HashLayout, Mix, Multipliers, Outside};

/// Begins the hashed bytes; a new rule for them gets a new line here.
const RULE: &[u8] = b"engram-fast layout numbers, rule 1\n";

struct Bytes(Sha256);

impl Bytes {
    fn number(&mut self, value: i64) {
        self.0.update(value.to_le_bytes());
    }

    /// A list is its length, then its numbers, so that two lists never read as one.
    fn list(&mut self, values: &[i64]) {
        self.number(values.len() as i64);
        values.iter().for_each(|&value| self.number(value));
    }
}

impl HashLayout {
    /// Hex sha256 of the numbers and the token map's digest: equal for equal numbers, however they were made.
    pub fn digest(&self) -> String {
        let mut bytes = Bytes(Sha256::new());
        bytes.0.update(RULE);
        bytes.list(&self.orders.iter().map(|&order| order as i64).collect::<Vec<_>>());
        bytes.number(self.heads as i64);
        bytes.number(self.max_order as i64);
        bytes.number(match self.columns {
            Columns::OrderMajor => 0,
            Columns::FunctionMajor => 1,
        });
        bytes.number(match self.mix {
            Mix::Xor => 0,
            Mix::Sum => 1,
        });
        bytes.number(i64::from(self.word_bits));
        bytes.number(match self.align {
            Align::Newest => 0,
            Align::Oldest => 1,
        });
        bytes.number(self.fill);
        bytes.list(&self.boundary_ids);
        bytes.list(self.ids.limit.as_slice());
        for outside in [self.ids.negative, self.ids.too_large] {
            bytes.number(match outside {
                Outside::Error => 0,
                Outside::Enter => 1,
            });
        }
        bytes.number(i64::from(self.adds_offsets));
        bytes.number(i64::from(self.token_map.is_some()));
        if let Some(map) = &self.token_map {
            bytes.0.update(map.digest.as_bytes());
            bytes.number(map.length as i64);
            bytes.number(map.size as i64);
        }
        bytes.number(self.layers.len() as i64);
        for layer in &self.layers {
            bytes.number(layer.layer_id);
            match &layer.multipliers {
                Multipliers::Shared(multipliers) => bytes.list(multipliers),
                Multipliers::PerColumn(rows) => rows.iter().for_each(|row| bytes.list(row)),
            }
            bytes.list(&layer.moduli);
            bytes.list(&layer.offsets);
            bytes.number(layer.rows);
        }
        bytes.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
