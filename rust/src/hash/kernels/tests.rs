//! One suite for every kernel that this processor can run: all lengths around the vectors, edge values, every shape of
//! layout, against a definition of a few lines that shares nothing with the kernels.

use serde_json::{Value, json};

use super::*;
use crate::hash::block::{BLOCK, Mixes, Rows, Window};
use crate::hash::plan::{LANES, LayerPlan};
use crate::layout::{HashLayout, Multipliers};

/// Kernels that some processor of this architecture has.
const KNOWN: &[&str] = if cfg!(target_arch = "x86_64") {
    &["avx512", "avx2", "scalar"]
} else if cfg!(target_arch = "aarch64") {
    &["neon", "scalar"]
} else {
    &["scalar"]
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 31);
        x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (x >> 27)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn wide(&mut self) -> i64 {
        const EDGES: [i64; 9] = [0, 1, -1, i64::MIN, i64::MAX, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 62];
        match self.below(4) {
            0 => EDGES[self.below(9) as usize],
            1 => self.below(200_000) as i64,
            _ => self.next() as i64 >> self.below(60),
        }
    }
}

/// Sizes of moduli that take one step, two, the processor's division, and all of them mixed.
fn modulus(random: &mut Random, class: u64) -> i64 {
    match class {
        0 => (8193 + random.below(1 << 30)) as i64,
        1 => (1 + random.below(8192)) as i64,
        2 => (1i64 << 31) + random.below(1 << 40) as i64,
        3 => [1, 2, 8192, 8193, (1 << 31) - 1][random.below(5) as usize],
        _ => {
            let class = random.below(4);
            modulus(random, class)
        }
    }
}

struct Case {
    layout: HashLayout,
    values: Vec<Vec<i64>>,
    len: usize,
}

fn case(random: &mut Random, len: usize) -> Case {
    let xor = random.below(4) > 0;
    let heads = [1, 2, 3, 4, 7, 8, 9, 16, 17, 24][random.below(10) as usize] as usize;
    let max_order = 2 + random.below(5) as usize;
    let orders: Vec<usize> = match random.below(3) {
        0 => vec![max_order],
        1 => (2..=max_order).collect(),
        _ => (1..=max_order).filter(|&n| n == max_order || random.below(2) == 0).collect(),
    };
    let columns = heads * orders.len();
    let word_bits = if random.below(4) == 0 { 32 } else { 64 };
    let class = random.below(5);
    let largest = if word_bits == 32 { i64::from(i32::MAX) } else { i64::MAX };
    let moduli: Vec<i64> = (0..columns).map(|_| modulus(random, class).min(largest)).collect();
    let mut offsets = vec![0i64];
    for p in &moduli {
        offsets.push(offsets.last().unwrap() + p);
    }
    let rows = offsets.pop().unwrap();
    let mut multiplier = || if word_bits == 32 { i64::from(random.wide() as i32) } else { random.wide() };
    let multipliers: Value = if xor {
        (0..max_order).map(|_| multiplier()).collect::<Vec<_>>().into()
    } else {
        let order = |c: usize| orders[c / heads];
        (0..columns)
            .map(|c| (0..max_order).map(|k| if k < order(c) { multiplier() } else { 0 }).collect::<Vec<_>>())
            .collect::<Vec<_>>()
            .into()
    };
    let layout = json!({
        "format": "engram-fast-layout", "version": 1, "name": "test", "parameters": {}, "orders": orders, "heads": heads,
        "max_order": max_order, "columns": "order-major", "mix": if xor { "xor" } else { "sum" },
        "word_bits": word_bits, "align": "newest", "fill": 0, "boundary_ids": [],
        "ids": {"limit": null, "negative": "enter", "too_large": "enter"}, "token_map": null, "adds_offsets": true,
        "layers": [{"layer_id": 0, "multipliers": multipliers, "moduli": moduli, "offsets": offsets, "rows": rows}]
    });
    let layout = HashLayout::from_json(&layout.to_string()).unwrap();
    let values = (0..max_order).map(|_| (0..len + LANES).map(|_| random.wide()).collect()).collect();
    Case { layout, values, len }
}

/// The definition: token `t`, column `c`.
fn row(case: &Case, add_offsets: bool, t: usize, c: usize) -> i64 {
    let layout = &case.layout;
    let order = layout.column_orders()[c];
    let mut mix = 0i64;
    for k in 0..order {
        let value = case.values[k][t];
        match &layout.layers[0].multipliers {
            Multipliers::Shared(m) => mix ^= value.wrapping_mul(m[k]),
            Multipliers::PerColumn(m) => mix = mix.wrapping_add(value.wrapping_mul(m[c][k])),
        }
    }
    if layout.word_bits == 32 {
        mix = i64::from(mix as i32);
    }
    mix.rem_euclid(layout.layers[0].moduli[c]) + if add_offsets { layout.layers[0].offsets[c] } else { 0 }
}

fn check<T: Row + PartialEq + std::fmt::Debug + TryFrom<i64>>(kernel: &Kernel, case: &Case, random: &mut Random) {
    let add_offsets = random.below(2) == 0;
    if T::try_from(case.layout.max_row(add_offsets)).is_err() {
        return;
    }
    let number = |x: i64| T::try_from(x).ok().expect("the largest row fits");
    let plan = LayerPlan::new(&case.layout, 0, add_offsets);
    let columns = plan.columns;
    let stride = columns + random.below(3) as usize * 4;
    let shift = random.below(5) as usize; // every alignment that the stores distinguish
    let untouched = number(-7);
    let mut out = vec![untouched; shift + case.len * stride + 16];
    let mut mixes = Box::new(Mixes::default());
    let window = Window::new(case.values.iter().map(Vec::as_slice), case.len, &mut mixes);
    // SAFETY: `out` has room for `len` tokens from `shift` on; views are a vector longer than `len`.
    unsafe {
        let rows = Rows { data: out.as_mut_ptr().add(shift), stride, stream: random.below(2) == 0 };
        T::rows_fn(kernel)(&plan, &window, rows);
    }
    for (i, &got) in out.iter().enumerate() {
        let place = i.checked_sub(shift).map(|i| (i / stride, i % stride));
        let expected = match place {
            Some((t, c)) if t < case.len && c < columns => number(row(case, add_offsets, t, c)),
            _ => untouched,
        };
        assert_eq!(got, expected, "{} at {place:?} of {} tokens: {}", kernel.name, case.len, case.layout.to_json());
    }
}

#[test]
fn every_kernel_matches_the_definition() {
    for name in KNOWN {
        let Some(kernel) = available().iter().find(|kernel| kernel.name == *name) else {
            println!("SKIPPED: this processor cannot run the {name} kernel");
            continue;
        };
        let mut random = Random(7);
        let lengths = (0..=2 * LANES + 3).chain([BLOCK - 1, BLOCK]);
        for len in lengths {
            for _ in 0..if len < 32 { 60 } else { 20 } {
                let case = case(&mut random, len);
                check::<i32>(kernel, &case, &mut random);
                check::<i64>(kernel, &case, &mut random);
            }
        }
    }
}

#[test]
fn a_forced_kernel_is_taken_or_refused_by_name() {
    assert_eq!(named("kernel", "scalar").unwrap().name, "scalar");
    assert!(named("kernel", "vax").unwrap_err().to_string().ends_with("scalar"));
}
