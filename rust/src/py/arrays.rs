//! NumPy arrays as the core sees them: integer views in, checked buffers out.

use std::ffi::c_int;

use numpy::npyffi::{NpyTypes, PY_ARRAY_API, flags, get_type_object, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::ids::{Ints, Kind};

/// An integer array, kept alive, as it was when it was taken. Code of the caller that runs later, while other arguments are
/// read, can change the array: [`IntArray::check_unchanged`] refuses that before the core reads the first value.
pub struct IntArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    first: *mut u8,
    shape: Vec<usize>,
    strides: [isize; 2],
    kind: Kind,
    swapped: bool,
}

impl<'py> IntArray<'py> {
    /// Takes a NumPy array as it is, and turns anything else that holds integers into one; `name` is the caller's word
    /// for it. `bools` says whether booleans are welcome.
    pub fn new(object: &Bound<'py, PyAny>, name: &str, bools: bool) -> PyResult<Self> {
        let py = object.py();
        if let Ok(array) = object.cast_exact::<PyUntypedArray>()
            && let Some(kind) = kind_of(array, bools)
        {
            return Ok(Self::of(array.clone(), kind));
        }
        let converted = py
            .import(intern!(py, "engram_fast.ids"))?
            .call_method1(intern!(py, "as_integers"), (object, name, bools))?;
        let array = base_class(&converted.cast_into::<PyUntypedArray>()?)?;
        let kind = kind_of(&array, bools).ok_or_else(|| {
            PyTypeError::new_err(format!("{name}: expected integers, got an array of {}", array.dtype()))
        })?;
        Ok(Self::of(array, kind))
    }

    /// As [`IntArray::new`], and of one dimension.
    pub fn flat(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let array = Self::new(object, name, false)?;
        if array.shape.len() == 1 {
            return Ok(array);
        }
        Err(PyValueError::new_err(format!("{name}: expected one dimension, got the shape {:?}", array.shape)))
    }

    /// As [`IntArray::new`] with any number of dimensions; more than two are flattened in the view, not in the shape.
    pub fn of_any_shape(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let array = Self::new(object, name, false)?;
        if array.shape.len() <= 2 {
            return Ok(array);
        }
        let flat = array.array.call_method1(intern!(object.py(), "reshape"), (-1,))?.cast_into::<PyUntypedArray>()?;
        Ok(Self { shape: array.shape, ..Self::of(flat, (array.kind, array.swapped)) })
    }

    fn of(array: Bound<'py, PyUntypedArray>, (kind, swapped): (Kind, bool)) -> Self {
        Self { first: data(&array), shape: array.shape().to_vec(), strides: two_strides(&array), kind, swapped, array }
    }

    /// Refuses an array that is no longer what it was when it was taken; `name` is the caller's word for it.
    pub fn check_unchanged(&self, name: &str) -> PyResult<()> {
        let array = &self.array;
        let flattened = self.shape.len() > 2; // of a reshaped array nobody else knows the object
        let same = data(array) == self.first
            && (flattened || array.shape() == self.shape)
            && two_strides(array) == self.strides
            && kind_of(array, true) == Some((self.kind, self.swapped));
        if same { Ok(()) } else { Err(changed(name)) }
    }

    /// The array's own shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its values as `[rows, cols]`; what has other than two dimensions is one row. Only for [`IntArray::of_any_shape`]
    /// may there be more than two.
    pub fn view(&self) -> Ints<'_> {
        let shape = match self.shape[..] {
            [rows, cols] => [rows, cols],
            _ => [1, self.shape.iter().product()],
        };
        // SAFETY: NumPy vouches for shape and strides of an array, which `self.array` keeps alive and in place; without a
        // dimension there is one value, with more than two the array was made flat.
        unsafe { Ints::from_raw(self.first, self.kind, self.swapped, shape, self.strides) }
    }

    /// All values of a flat array; one past 63 bits is a ValueError.
    pub fn to_vec(&self, name: &str) -> PyResult<Vec<i64>> {
        let view = self.view();
        if let Some([row, col]) = view.first_wrapped() {
            let value = view.get(row, col);
            return Err(PyValueError::new_err(format!("{name}: {value} at position {col} does not fit int64")));
        }
        let mut values = Vec::new();
        let length = view.shape()[1];
        // A broadcast array can be longer than any memory.
        values
            .try_reserve_exact(length)
            .map_err(|_| PyMemoryError::new_err(format!("{name}: there is no memory for {length} integers")))?;
        values.resize(length, 0);
        view.load(0, 0, &mut values);
        Ok(values)
    }
}

/// A new C-contiguous array of int32 or int64, by `width` in bytes; unless `zeroed`, its elements are whatever they are.
pub fn allocate<'py>(
    py: Python<'py>,
    shape: &[usize],
    width: usize,
    zeroed: bool,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let dtype = if width == 4 { numpy::dtype::<i32>(py) } else { numpy::dtype::<i64>(py) };
    let mut dims: Vec<npy_intp> = shape.iter().map(|&n| n as npy_intp).collect();
    // SAFETY: `dims` holds as many lengths as are announced; NumPy allocates, takes the dtype over, and returns null with
    // an exception set where there is no memory (which the constructors of the `numpy` crate panic on).
    unsafe {
        let (dtype, nd) = (dtype.into_dtype_ptr(), dims.len() as c_int);
        let array = if zeroed {
            PY_ARRAY_API.PyArray_Zeros(py, nd, dims.as_mut_ptr(), dtype, 0)
        } else {
            let class = get_type_object(py, NpyTypes::PyArray_Type);
            let (strides, memory, base) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
            PY_ARRAY_API.PyArray_NewFromDescr(py, class, dtype, nd, dims.as_mut_ptr(), strides, memory, 0, base)
        };
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

/// Bytes from row to row and from column to column; a flat array has one row.
fn two_strides(array: &Bound<PyUntypedArray>) -> [isize; 2] {
    match *array.strides() {
        [stride] => [0, stride],
        [row, column] => [row, column],
        _ => [0, 0],
    }
}

fn changed(name: &str) -> PyErr {
    PyValueError::new_err(format!("{name}: the array was changed while the arguments were read; pass one that stays"))
}

/// The array itself, or a view of the base class of an instance of a subclass, whose methods could be the caller's code.
fn base_class<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if array.as_any().cast_exact::<PyUntypedArray>().is_ok() {
        return Ok(array.clone());
    }
    let py = array.py();
    // SAFETY: the array is alive; without a dtype NumPy keeps the array's own, and the class is NumPy's own.
    unsafe {
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let view = PY_ARRAY_API.PyArray_View(py, array.as_array_ptr(), std::ptr::null_mut(), class);
        Ok(Bound::from_owned_ptr_or_err(py, view)?.cast_into_unchecked())
    }
}

/// The first element's address.
pub fn data(array: &Bound<PyUntypedArray>) -> *mut u8 {
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
        (b'b', 1) if bools => Kind::Bool,
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

/// A buffer of the caller that a result may be written to.
pub struct OutArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    /// Bytes of a row number: 4 or 8.
    pub width: usize,
}

impl<'py> OutArray<'py> {
    /// Takes `out` if it is an array of int32 or int64; the rest is for [`OutArray::take`].
    pub fn new(out: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = out.py();
        let refuse = || {
            let name = out.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            PyTypeError::new_err(format!("out: expected a NumPy array of int32 or int64, got {name}"))
        };
        let array = out.cast::<PyUntypedArray>().map_err(|_| refuse())?;
        if out.cast_exact::<PyUntypedArray>().is_err() {
            let masked =
                py.import(intern!(py, "numpy"))?.getattr(intern!(py, "ma"))?.getattr(intern!(py, "MaskedArray"))?;
            if out.is_instance(&masked)? {
                return Err(refuse()); // its mask would go on hiding what is written
            }
        }
        let width = row_width(&array.dtype()).ok_or_else(|| {
            PyTypeError::new_err(format!("out: expected int32 or int64 in native byte order, got {}", array.dtype()))
        })?;
        Ok(Self { array: array.clone(), width })
    }

    /// The array's own shape, whatever a subclass says.
    #[cfg(feature = "measure")]
    pub fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The first element's address, once nothing can run the caller's code any more. Refuses a buffer of another width or
    /// shape, one that cannot be written in place, and one that shares memory with an input.
    pub fn take(&self, shape: &[usize], inputs: &[(&'static str, &IntArray)]) -> PyResult<*mut u8> {
        self.check(shape)?;
        let py = self.array.py();
        for (_, input) in inputs {
            if bounds_overlap(&self.array, &input.array)
                && py
                    .import(intern!(py, "numpy"))?
                    .call_method1(intern!(py, "shares_memory"), (base_class(&self.array)?, base_class(&input.array)?))?
                    .extract()?
            {
                return Err(PyValueError::new_err("out: shares memory with an input"));
            }
        }
        // NumPy has looked at the arrays: once more, and from here on nothing but the core runs.
        self.check(shape)?;
        inputs.iter().try_for_each(|(name, input)| input.check_unchanged(name))?;
        Ok(data(&self.array))
    }

    fn check(&self, shape: &[usize]) -> PyResult<()> {
        let refuse = |reason: String| Err(PyValueError::new_err(format!("out: {reason}")));
        if row_width(&self.array.dtype()) != Some(self.width) {
            return Err(changed("out"));
        }
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
        Ok(())
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
