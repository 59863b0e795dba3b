//! `Ints`: a borrowed two-dimensional view of integers of any width, stride, alignment and byte order.

use std::marker::PhantomData;

use crate::{Error, Result};

/// The integer types that token ids, masks and segment ids come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    /// A byte that is 0 or 1.
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust integer that an [`Ints`] can view.
pub trait Int: Copy + sealed::Sealed {
    /// Its tag.
    const KIND: Kind;
}

macro_rules! ints {
    ($($t:ty => $k:ident),*) => { $(
        impl sealed::Sealed for $t {}
        impl Int for $t { const KIND: Kind = Kind::$k; }
    )* };
}
ints!(bool => Bool, u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64);

/// Calls `$f!(type)` for the Rust type behind a [`Kind`].
macro_rules! by_kind {
    ($kind:expr, $f:ident) => {
        match $kind {
            Kind::Bool | Kind::U8 => $f!(u8),
            Kind::I8 => $f!(i8),
            Kind::U16 => $f!(u16),
            Kind::I16 => $f!(i16),
            Kind::U32 => $f!(u32),
            Kind::I32 => $f!(i32),
            Kind::U64 => $f!(u64),
            Kind::I64 => $f!(i64),
        }
    };
}

/// Integers `[rows, cols]` somewhere in memory. Reading copies values out; nothing assumes alignment or contiguity.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    data: *const u8,
    kind: Kind,
    swapped: bool,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    owner: PhantomData<&'a [u8]>,
}

// SAFETY: `Ints` only reads, and its lifetime keeps the memory alive. A writer on the other side of the language
// border can at worst make a read return either value of a race; every value read is checked before it indexes.
unsafe impl Send for Ints<'_> {}
// SAFETY: as above.
unsafe impl Sync for Ints<'_> {}

impl<'a> Ints<'a> {
    /// A C-contiguous `[rows, cols]` view of a slice.
    pub fn new<T: Int>(values: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(values.len()) {
            return Err(Error::Length { name: "ids", length: values.len(), shape: vec![rows, cols] });
        }
        let size = size_of::<T>() as isize;
        // SAFETY: the slice holds rows * cols aligned values for 'a.
        Ok(unsafe {
            Self::from_raw(values.as_ptr().cast(), T::KIND, false, [rows, cols], [cols as isize * size, size])
        })
    }

    /// A view of foreign memory; `strides` in bytes, possibly negative or unaligned.
    ///
    /// # Safety
    /// For every `r < shape[0]`, `c < shape[1]` the integer at `data + r*strides[0] + c*strides[1]` is readable for `'a`.
    pub unsafe fn from_raw(data: *const u8, kind: Kind, swapped: bool, shape: [usize; 2], strides: [isize; 2]) -> Self {
        let ([rows, cols], [row_stride, col_stride]) = (shape, strides);
        Self { data, kind, swapped, rows, cols, row_stride, col_stride, owner: PhantomData }
    }

    /// `[rows, cols]`.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// Whether a value may exceed `i64::MAX`, so that [`Ints::load`] returns it as a negative number.
    pub fn may_wrap(&self) -> bool {
        self.kind == Kind::U64
    }

    /// Whether every value this type can hold lies in `0..limit`, so that no value needs a check.
    pub fn always_below(&self, limit: i64) -> bool {
        match self.kind {
            Kind::Bool => limit > 1,
            Kind::U8 => limit > u8::MAX as i64,
            Kind::U16 => limit > u16::MAX as i64,
            Kind::U32 => limit > u32::MAX as i64,
            _ => false,
        }
    }

    /// The columns of one row from `col` on.
    pub fn row_from(&self, row: usize, col: usize) -> Self {
        assert!(row < self.rows && col <= self.cols, "outside the array");
        let offset = row as isize * self.row_stride + col as isize * self.col_stride;
        Self { data: self.data.wrapping_offset(offset), rows: 1, cols: self.cols - col, ..*self }
    }

    /// The first value past `i64::MAX`, which [`Ints::load`] could not tell from a negative one, by row and column.
    pub fn first_wrapped(&self) -> Option<[usize; 2]> {
        if !self.may_wrap() {
            return None;
        }
        let mut block = [0; 512];
        for row in 0..self.rows {
            for col in (0..self.cols).step_by(block.len()) {
                let values = &mut block[..(self.cols - col).min(512)];
                self.load(row, col, values);
                if let Some(i) = values.iter().position(|&value| value < 0) {
                    return Some([row, col + i]);
                }
            }
        }
        None
    }

    /// One value, exactly.
    pub fn get(&self, row: usize, col: usize) -> i128 {
        let mut value = [0];
        self.load(row, col, &mut value);
        self.exactly(value[0])
    }

    /// What a number that [`Ints::load`] gave stands for.
    pub fn exactly(&self, loaded: i64) -> i128 {
        if self.may_wrap() { loaded as u64 as i128 } else { loaded as i128 }
    }

    /// Whether each of `out.len()` values of `row` from `col` on differs from 0, as 0 or 1.
    #[inline]
    pub fn load_flags(&self, row: usize, col: usize, out: &mut [u8]) {
        if self.kind == Kind::Bool && self.col_stride == 1 {
            assert!(row < self.rows && col <= self.cols && out.len() <= self.cols - col, "read outside the array");
            // SAFETY: as in `load`; the bytes of a row lie side by side.
            unsafe {
                let at = self.data.offset(row as isize * self.row_stride + col as isize);
                at.copy_to_nonoverlapping(out.as_mut_ptr(), out.len());
            }
            for flag in out {
                *flag = u8::from(*flag != 0);
            }
            return;
        }
        let mut values = [0; 64];
        for (i, out) in out.chunks_mut(values.len()).enumerate() {
            let values = &mut values[..out.len()];
            self.load(row, col + i * 64, values);
            for (flag, &value) in out.iter_mut().zip(&*values) {
                *flag = u8::from(value != 0);
            }
        }
    }

    /// Copies `out.len()` values of `row` from `col` on, as `i64` (`u64` past the range wraps: see [`Ints::may_wrap`]).
    #[inline]
    pub fn load(&self, row: usize, col: usize, out: &mut [i64]) {
        self.load_with(row, col, out, |value| value);
    }

    /// [`Ints::load`] of what `f` makes of each value.
    #[inline(always)]
    pub fn load_with(&self, row: usize, col: usize, out: &mut [i64], mut f: impl FnMut(i64) -> i64) {
        let len = out.len();
        // SAFETY: `each` counts up to `len`.
        self.each(row, col, len, |i, value| unsafe { *out.get_unchecked_mut(i) = f(value) });
    }

    /// Whether each of `len` values of `row` from `col` on, taken as [`Ints::load`] gives it, lies in `0..limit`.
    #[inline]
    pub fn all_below(&self, row: usize, col: usize, len: usize, limit: i64) -> bool {
        // The sign of `last - value` says "too large"; sums and signs are what every processor does to whole vectors.
        let last = limit.wrapping_sub(1);
        let mut outside = 0;
        self.each(row, col, len, |_, value| outside |= value | last.wrapping_sub(value));
        outside >= 0
    }

    /// Calls `f` with the index and the value of each of `len` values of `row` from `col` on.
    #[inline(always)]
    fn each(&self, row: usize, col: usize, len: usize, mut f: impl FnMut(usize, i64)) {
        assert!(row < self.rows && col <= self.cols && len <= self.cols - col, "read outside the array");
        macro_rules! visit {
            ($t:ty) => {{
                // SAFETY: row and the columns lie inside the shape (asserted), which the constructor vouches for;
                // reads are unaligned.
                unsafe {
                    // Wrapping: behind the last column, where an empty read may stand, there need not be memory.
                    let offset = row as isize * self.row_stride + col as isize * self.col_stride;
                    let mut at = self.data.wrapping_offset(offset);
                    if self.swapped {
                        for i in 0..len {
                            f(i, at.cast::<$t>().read_unaligned().swap_bytes() as i64);
                            at = at.wrapping_offset(self.col_stride);
                        }
                    } else if self.col_stride == size_of::<$t>() as isize {
                        let at = at.cast::<$t>();
                        for i in 0..len {
                            f(i, at.add(i).read_unaligned() as i64);
                        }
                    } else {
                        for i in 0..len {
                            f(i, at.cast::<$t>().read_unaligned() as i64);
                            at = at.wrapping_offset(self.col_stride);
                        }
                    }
                }
            }};
        }
        by_kind!(self.kind, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_its_extremes() {
        macro_rules! check {
            ($t:ty) => {{
                let values = [<$t>::MIN, <$t>::MAX, 1, 0];
                let view = Ints::new(&values, 2, 2).unwrap();
                for (i, &v) in values.iter().enumerate() {
                    assert_eq!(view.get(i / 2, i % 2), v as i128);
                }
            }};
        }
        check!(u8);
        check!(i8);
        check!(u16);
        check!(i16);
        check!(u32);
        check!(i32);
        check!(u64);
        check!(i64);
    }

    #[test]
    fn strides_offsets_and_byte_order_are_respected() {
        let bytes: Vec<u8> = (0..64).collect();
        // Rows run backwards, columns skip one, the first byte is odd, and the order is the foreign one.
        // SAFETY: the furthest bytes read are 33 + 3 and 33 - 16.
        let view = unsafe { Ints::from_raw(bytes.as_ptr().add(33), Kind::U16, true, [3, 2], [-8, 2]) };
        assert_eq!(view.get(0, 0), i128::from(u16::from_ne_bytes([33, 34]).swap_bytes()));
        assert_eq!(view.get(2, 1), i128::from(u16::from_ne_bytes([19, 20]).swap_bytes()));
    }

    #[test]
    fn one_value_outside_the_range_is_seen_wherever_it_stands() {
        for len in 0..40 {
            let ids = vec![5i64; len];
            let below = |ids: &[i64], limit| Ints::new(ids, 1, len).unwrap().all_below(0, 0, len, limit);
            assert!(below(&ids, 6));
            for bad in [6, -1, i64::MIN, i64::MIN + 5, i64::MAX] {
                for i in 0..len {
                    let mut ids = ids.clone();
                    ids[i] = bad;
                    assert!(!below(&ids, 6), "{len} {i} {bad}");
                    assert_eq!(below(&ids, i64::MAX), (0..i64::MAX).contains(&bad));
                    assert!(!below(&ids, 0));
                }
            }
        }
        assert!(!Ints::new(&[u64::MAX], 1, 1).unwrap().all_below(0, 0, 1, i64::MAX));
        assert!(Ints::new(&[u32::MAX, 9], 1, 2).unwrap().all_below(0, 1, 1, 10));
    }

    #[test]
    fn part_of_a_row_is_a_view_of_its_own() {
        let values: Vec<u16> = (0..12).collect();
        let view = Ints::new(&values, 3, 4).unwrap().row_from(1, 3);
        assert_eq!((view.shape(), view.get(0, 0)), ([1, 1], 7));
        assert_eq!(Ints::new(&values, 3, 4).unwrap().row_from(2, 4).shape(), [1, 0]);
    }

    #[test]
    fn values_past_63_bits_are_found_and_read_exactly() {
        let mut values = vec![7u64; 2 * 700];
        assert_eq!(Ints::new(&values, 2, 700).unwrap().first_wrapped(), None);
        values[1399] = u64::MAX;
        let view = Ints::new(&values, 2, 700).unwrap();
        assert_eq!((view.first_wrapped(), view.get(1, 699)), (Some([1, 699]), i128::from(u64::MAX)));
        assert_eq!(Ints::new(&[-1i64], 1, 1).unwrap().first_wrapped(), None);
    }

    #[test]
    fn flags_are_read_alike_from_every_type_and_stride() {
        let wanted: Vec<u8> = (0..300u32).map(|i| u8::from(i % 3 > 0)).collect();
        let (mut narrow, mut wide) = (vec![0; 300], vec![0; 300]);
        let bools: Vec<bool> = wanted.iter().map(|&flag| flag != 0).collect();
        Ints::new(&bools, 1, 300).unwrap().load_flags(0, 0, &mut narrow);
        let longs: Vec<i64> = wanted.iter().map(|&flag| i64::from(flag) << 40).collect();
        Ints::new(&longs, 1, 300).unwrap().load_flags(0, 0, &mut wide);
        assert_eq!((&narrow, &wide), (&wanted, &wanted));
        let mut back = [0; 3];
        // SAFETY: every other of the last six, backwards.
        let view = unsafe { Ints::from_raw(bools.as_ptr().add(299).cast(), Kind::Bool, false, [1, 3], [0, -2]) };
        view.load_flags(0, 0, &mut back);
        assert_eq!(back, [wanted[299], wanted[297], wanted[295]]);
    }

    #[test]
    fn a_shape_that_lies_is_refused() {
        assert!(Ints::new(&[1u8, 2, 3], 2, 2).is_err());
        assert!(Ints::new(&[1u8, 2, 3], usize::MAX, 2).is_err());
    }
}
