//! NumPy arrays as the core sees them: integer views in, checked buffers out.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::flags};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::hash::{Ints, Kind};

/// An integer array of one or two dimensions, kept alive.
pub struct IntArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    kind: Kind,
    swapped: bool,
}

impl<'py> IntArray<'py> {
    /// Takes a NumPy array as it is, and turns anything else that holds integers into one; `name` is the caller's word
    /// for it. `flags` says whether booleans are welcome.
    pub fn new(object: &Bound<'py, PyAny>, name: &str, bools: bool) -> PyResult<Self> {
        let py = object.py();
        if let Ok(array) = object.cast_exact::<PyUntypedArray>()
            && let Some((kind, swapped)) = kind_of(array, bools)
        {
            return Ok(Self { array: array.clone(), kind, swapped });
        }
        let converted = py
            .import(intern!(py, "engram_fast._arrays"))?
            .call_method1(intern!(py, "as_integers"), (object, name, bools))?;
        let array = converted.cast_into::<PyUntypedArray>()?;
        let (kind, swapped) = kind_of(&array, bools).ok_or_else(|| {
            PyTypeError::new_err(format!("{name}: expected integers, got an array of {}", array.dtype()))
        })?;
        Ok(Self { array, kind, swapped })
    }

    /// The array's own shape.
    pub fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// Its values as `[rows, cols]`; a flat array is one row.
    pub fn view(&self) -> Ints<'_> {
        let (shape, strides) = (self.array.shape(), self.array.strides());
        let (shape, strides) = match (shape, strides) {
            (&[n], &[s]) => ([1, n], [0, s]),
            (&[b, t], &[sb, st]) => ([b, t], [sb, st]),
            _ => unreachable!("callers check the number of dimensions first"),
        };
        // SAFETY: NumPy vouches for shape and strides of an array, which `self.array` keeps alive and in place.
        unsafe { Ints::from_raw(data(&self.array).cast(), self.kind, self.swapped, shape, strides) }
    }

    /// All values of a flat array.
    pub fn to_vec(&self) -> Vec<i64> {
        let mut values = vec![0; self.array.len()];
        if !values.is_empty() {
            self.view().load(0, 0, &mut values);
        }
        values
    }
}

fn data(array: &Bound<PyUntypedArray>) -> *mut u8 {
    // SAFETY: the array object is alive.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}

fn has_flags(array: &Bound<PyUntypedArray>, wanted: i32) -> bool {
    // SAFETY: the array object is alive.
    unsafe { (*array.as_array_ptr()).fields.flags & wanted == wanted }
}

fn kind_of(array: &Bound<PyUntypedArray>, bools: bool) -> Option<(Kind, bool)> {
    let dtype = array.dtype();
    let swapped = dtype.byteorder() == if cfg!(target_endian = "little") { b'>' } else { b'<' };
    let kind = match (dtype.kind(), dtype.itemsize()) {
        (b'b', 1) if bools => Kind::U8,
        (b'u', 1) => Kind::U8,
        (b'i', 1) => Kind::I8,
        (b'u', 2) => Kind::U16,
        (b'i', 2) => Kind::I16,
        (b'u', 4) => Kind::U32,
        (b'i', 4) => Kind::I32,
        (b'u', 8) => Kind::U64,
        (b'i', 8) => Kind::I64,
        _ => return None,
    };
    Some((kind, swapped))
}

/// Width in bytes of a row number: 4 or 8, or nothing where the dtype is neither int32 nor int64 of this machine.
pub fn row_width(dtype: &Bound<numpy::PyArrayDescr>) -> Option<usize> {
    let native = dtype.byteorder() != if cfg!(target_endian = "little") { b'>' } else { b'<' };
    (dtype.kind() == b'i' && native && matches!(dtype.itemsize(), 4 | 8)).then(|| dtype.itemsize())
}

/// A buffer that may be written: the caller's own.
pub struct OutArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    /// 4 or 8.
    pub width: usize,
}

impl<'py> OutArray<'py> {
    /// Takes `out` if it is an int32 or int64 array at all; the rest is for [`OutArray::check`].
    pub fn new(out: &Bound<'py, PyAny>) -> PyResult<Self> {
        let array = out.cast::<PyUntypedArray>().map_err(|_| {
            let name = out.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            PyTypeError::new_err(format!("out: expected a NumPy array of int32 or int64, got {name}"))
        })?;
        let width = row_width(&array.dtype()).ok_or_else(|| {
            PyTypeError::new_err(format!("out: expected int32 or int64 in native byte order, got {}", array.dtype()))
        })?;
        Ok(Self { array: array.clone(), width })
    }

    /// Refuses a buffer of another shape, one that cannot be written in place, and one that shares memory with an input.
    pub fn check(&self, shape: &[usize], inputs: &[&IntArray]) -> PyResult<()> {
        let refuse = |reason: String| Err(PyValueError::new_err(format!("out: {reason}")));
        if self.array.shape() != shape {
            return refuse(format!("expected the shape {shape:?}, got {:?}", self.array.shape()));
        }
        if !has_flags(&self.array, flags::NPY_ARRAY_WRITEABLE) {
            return refuse("the array is read-only".into());
        }
        if !has_flags(&self.array, flags::NPY_ARRAY_C_CONTIGUOUS) {
            return refuse(format!("expected a C-contiguous array, got strides {:?}", self.array.strides()));
        }
        if !has_flags(&self.array, flags::NPY_ARRAY_ALIGNED) {
            return refuse(format!("the data is not aligned to {} bytes", self.width));
        }
        for input in inputs {
            let py = self.array.py();
            if bounds_overlap(&self.array, &input.array)
                && py
                    .import(intern!(py, "numpy"))?
                    .call_method1(intern!(py, "shares_memory"), (&self.array, &input.array))?
                    .extract()?
            {
                return refuse("shares memory with an input".into());
            }
        }
        Ok(())
    }

    /// The first element.
    pub fn data(&self) -> *mut u8 {
        data(&self.array)
    }
}

/// The lowest address of an array and the one behind its highest.
fn bounds(array: &Bound<PyUntypedArray>) -> (usize, usize) {
    let (mut low, mut high) = (0isize, array.dtype().itemsize() as isize);
    for (&n, &stride) in array.shape().iter().zip(array.strides()) {
        match n {
            0 => return (0, 0),
            _ if stride < 0 => low += stride * (n as isize - 1),
            _ => high += stride * (n as isize - 1),
        }
    }
    let start = data(array) as usize;
    (start.wrapping_add_signed(low), start.wrapping_add_signed(high))
}

fn bounds_overlap(a: &Bound<PyUntypedArray>, b: &Bound<PyUntypedArray>) -> bool {
    let ((a_low, a_high), (b_low, b_high)) = (bounds(a), bounds(b));
    a_low < b_high && b_low < a_high
}
