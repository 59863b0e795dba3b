//! A small fixed piece of work whose instructions are counted: `benches/instructions.py` runs it under callgrind.
//!
//! `hash_fixed 3` hashes with the numbers of `engram-demo-v1`, `hash_fixed 4` with numbers of the size of `deepseek-v4.1`'s;
//! both print a checksum, so that a count always belongs to a right answer.

use std::process::ExitCode;
use std::sync::Arc;

use engram_fast::{HashLayout, Hasher, Result, TokenMap};

const ROWS: usize = 8;
const COLS: usize = 512;
const RAW: usize = 129_280;
const SIZE: i64 = 99_092;

/// Both layers' numbers: multipliers, and the first modulus from which the others follow.
type Numbers = [(u32, [i64; 4], u64); 2];
const DEMO: Numbers = [
    (1, [76632096046245, 4839876093313, 35959672319349, 0], 646_402),
    (15, [28919099099511, 56020370062535, 53929037264533, 0], 646_619),
];
const V41: Numbers = [
    (1, [76632096046245, 4839876093313, 35959672319349, 73987337458391], 15_999_999),
    (14, [67716810739261, 51510806800915, 30921347202721, 82619226485591], 16_000_400),
];

fn primes_above(above: u64) -> impl Iterator<Item = i64> {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (above + 1..).filter(is_prime).map(|n| n as i64)
}

fn layout(order: usize, map: &TokenMap) -> Result<HashLayout> {
    let numbers = if order == 3 { DEMO } else { V41 };
    let heads = 8;
    let layers: Vec<String> = numbers
        .iter()
        .map(|(layer, multipliers, above)| {
            let moduli: Vec<i64> = primes_above(*above).take(heads * (order - 1)).collect();
            let offsets: Vec<i64> = moduli.iter().scan(0, |sum, p| Some(std::mem::replace(sum, *sum + p))).collect();
            let (m, rows) = (&multipliers[..order], moduli.iter().sum::<i64>());
            format!(
                r#"{{"layer_id":{layer},"multipliers":{m:?},"moduli":{moduli:?},"offsets":{offsets:?},"rows":{rows}}}"#
            )
        })
        .collect();
    let orders: Vec<usize> = (2..=order).collect();
    HashLayout::from_json(&format!(
        r#"{{"format":"engram-fast-layout","version":1,"name":"fixed","parameters":{{}},"orders":{orders:?},"heads":{heads},
            "max_order":{order},"columns":"order-major","mix":"xor","word_bits":64,"align":"newest","fill":2,
            "boundary_ids":[],"ids":{{"limit":{RAW},"negative":"error","too_large":"error"}},
            "token_map":{{"digest":"{}","length":{RAW},"size":{SIZE}}},"adds_offsets":{},"layers":[{}]}}"#,
        map.digest(),
        order == 4,
        layers.join(",")
    ))
}

/// The work that is counted, by this name: everything between the caller's buffers and back, on one thread.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn hash_fixed_work(hasher: &Hasher, ids: &[i64], out: &mut [i32]) {
    let batch = hasher.batch(ids, [ROWS, COLS]).expect("the shape fits").threads(1);
    batch.into(out).expect("every id is within the map");
}

fn work(order: usize) -> Result<()> {
    let lookup: Vec<i64> = (0..RAW as i64).map(|id| id % SIZE).collect();
    let map = Arc::new(TokenMap::from_lookup(&lookup)?);
    let hasher = Hasher::new(Arc::new(layout(order, &map)?), Some(map))?;
    let mut state = 1u64;
    let ids: Vec<i64> = (0..ROWS * COLS)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % RAW as u64) as i64
        })
        .collect();
    let mut out = vec![-1i32; 2 * ROWS * COLS * hasher.layout().columns()];
    // Once for what is made on the first use, once to be counted.
    for _ in 0..2 {
        hash_fixed_work(&hasher, &ids, &mut out);
    }
    let checksum = out.iter().fold(0u64, |sum, &row| sum.wrapping_mul(1_000_003).wrapping_add(row as u64));
    println!("{} {} {checksum:016x}", hasher.kernel(), ids.len() * 2);
    Ok(())
}

fn main() -> ExitCode {
    let order = match std::env::args().nth(1).as_deref() {
        Some("3") => 3,
        Some("4") => 4,
        _ => {
            eprintln!("usage: hash_fixed 3|4");
            return ExitCode::from(2);
        }
    };
    match work(order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
