//! One call's work shared with helper threads that may wake too late for it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Runs `work` on the caller's thread and on as many helpers as wake in time, each of which `spawn` is handed as a closure; a
/// panic on any of them is the caller's.
pub fn with_helpers<'a>(
    work: &'a (dyn Fn() + Sync + 'a),
    helpers: usize,
    spawn: impl Fn(Box<dyn FnOnce() + Send + 'static>),
) {
    let call = Arc::new(Call::new(work));
    let closing = Closing(&call);
    for _ in 0..helpers {
        let call = call.clone();
        spawn(Box::new(move || call.help()));
    }
    work();
    drop(closing);
    if let Some(panic) = call.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
}

/// What a call shares with its helpers. It outlives the call: a helper that wakes when all items are taken finds the door
/// closed and leaves. Waiting for such helpers, as a scope does, took as long as hashing some ten thousand tokens.
struct Call {
    /// Helpers at work, and [`CLOSED`] once no more may begin. Entering, leaving and closing change this one word, so a helper
    /// is either counted when the door closes or sees it closed; and who then reads that all have left sees what they wrote.
    door: AtomicUsize,
    caller: Thread,
    /// Valid while the door is open or somebody is inside.
    work: *const (dyn Fn() + Sync),
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

const CLOSED: usize = 1 << (usize::BITS - 1);
/// How long a caller looks for its helpers to finish before it sleeps: being woken takes tens of microseconds, about as long
/// as one item.
const PATIENCE: Duration = Duration::from_micros(100);

// SAFETY: `work` may be called from any thread, and everything else is made to be shared.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

impl Call {
    fn new<'a>(work: &'a (dyn Fn() + Sync + 'a)) -> Self {
        // SAFETY: only the lifetime changes; `help` and `Closing` see to it that nobody calls it later.
        let work = unsafe { std::mem::transmute::<&'a (dyn Fn() + Sync + 'a), *const (dyn Fn() + Sync)>(work) };
        Self { door: AtomicUsize::new(0), caller: std::thread::current(), work, panic: Mutex::new(None) }
    }

    fn help(&self) {
        let enter = |door: usize| (door & CLOSED == 0).then_some(door + 1);
        if self.door.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return;
        }
        // SAFETY: the door was open, and the caller stays until this helper has left.
        let work = AssertUnwindSafe(unsafe { &*self.work });
        if let Err(panic) = catch_unwind(work) {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        if self.door.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.caller.unpark();
        }
    }
}

/// Closes the door and waits until nobody is inside, also where the caller's own share panics.
struct Closing<'a>(&'a Call);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let door = &self.0.door;
        if door.fetch_or(CLOSED, Ordering::Acquire) == 0 {
            return;
        }
        let start = Instant::now();
        while door.load(Ordering::Acquire) != CLOSED {
            if start.elapsed() < PATIENCE { std::hint::spin_loop() } else { std::thread::park() }
        }
    }
}
