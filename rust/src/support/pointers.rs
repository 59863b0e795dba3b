//! A pointer that threads share, each of which writes a part of its own.

/// The start of a buffer that several threads write.
#[derive(Clone, Copy)]
pub struct SharedMut<T>(*mut T);

// SAFETY: the wrapper gives out addresses only; whoever writes through one vouches that no other thread has its part.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Wraps the address of a buffer's first element.
    pub fn new(start: *mut T) -> Self {
        Self(start)
    }

    /// The address `at` elements on. A method, so that closures capture the wrapper and not the bare pointer.
    pub fn at(&self, at: usize) -> *mut T {
        self.0.wrapping_add(at)
    }
}
