//! The thread pool: as many threads as the caller says, and none of them taken for alive after a fork.
//!
//! A forked child has the parent's memory but not its threads, so work handed to an inherited pool waits for ever. The
//! child therefore forgets the pools in a handler that the system runs right after the fork, before any other code, and
//! makes its own when it first needs one.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// No call uses more threads than this, whatever it asks for.
pub const MAX_THREADS: usize = 256;

/// Calls on fewer tokens than this are done before a second thread has woken.
pub const WORTH_SHARING: usize = 1 << 12;

/// Pools by number of helpers. A lock is safe here: a child never sees one that another thread held at the fork.
type Pools = Mutex<HashMap<usize, Arc<ThreadPool>>>;

static POOLS: AtomicPtr<Pools> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(unix)]
extern "C" fn forget_pools() {
    // Leaked on purpose: dropping a pool would wait for threads that the child does not have.
    POOLS.store(std::ptr::null_mut(), Ordering::Release);
}

/// Installs the handler; called before there can be a pool, and early enough that no other thread is halfway through.
pub fn prepare_for_fork() {
    static HANDLER: OnceLock<()> = OnceLock::new();
    HANDLER.get_or_init(|| {
        #[cfg(unix)]
        // SAFETY: the handler stores one atomic pointer, which is allowed between fork and exec.
        unsafe {
            libc::pthread_atfork(None, None, Some(forget_pools));
        }
    });
}

fn pools() -> &'static Pools {
    prepare_for_fork();
    let current = POOLS.load(Ordering::Acquire);
    // SAFETY: a non-null pointer came from Box::leak below and is never freed.
    if let Some(pools) = unsafe { current.as_ref() } {
        return pools;
    }
    let made = Box::into_raw(Box::new(Pools::default()));
    match POOLS.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked: it lives as long as the process.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: `made` was not published; `other` was, and is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

/// How many threads a call uses that does not say: those the process may run at once (its affinity and cgroup quota).
pub fn default_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into).min(MAX_THREADS))
}

/// Runs `work(0)`, …, `work(items - 1)`, each once, on up to `threads` threads, the caller's own among them. Results must
/// not depend on which thread takes which item. Falls back to the caller's thread where the system gives no others.
pub fn for_each(items: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let helpers = threads.min(items).min(MAX_THREADS).saturating_sub(1);
    let pool = if helpers == 0 { None } else { pool(helpers) };
    let Some(pool) = pool else {
        return (0..items).for_each(work);
    };
    let next = AtomicUsize::new(0);
    let take_items = || {
        loop {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= items {
                return;
            }
            work(item);
        }
    };
    let call = Arc::new(Call::new(&take_items));
    for _ in 0..helpers {
        let call = call.clone();
        pool.spawn(move || call.help());
    }
    let closing = Closing(&call);
    take_items();
    drop(closing);
    if let Some(panic) = call.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
}

/// What a call shares with its helpers. It outlives the call: a helper that wakes when all items are taken finds the door
/// closed and leaves. Waiting for such helpers, as a scope does, took as long as hashing some ten thousand tokens.
struct Call {
    /// Helpers at work, and [`CLOSED`] once no more may begin.
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

fn pool(helpers: usize) -> Option<Arc<ThreadPool>> {
    let mut pools = pools().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&helpers) {
        return Some(pool.clone());
    }
    let name = |i| format!("engram-fast-{i}");
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(helpers).thread_name(name).build().ok()?);
    pools.insert(helpers, pool.clone());
    Some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_runs_once_whatever_the_threads() {
        for threads in [0, 1, 2, 3, 64, 10_000_000] {
            for items in [0, 1, 2, 100] {
                let seen: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                for_each(items, threads, |i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{threads} {items}");
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_have_left() {
        for guilty in 0..8 {
            let inside = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                for_each(8, 3, |i| {
                    inside.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(300));
                    inside.fetch_sub(1, Ordering::Relaxed);
                    assert!(i != guilty, "item {i}");
                });
            }));
            let panic = result.unwrap_err();
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("item {guilty}")));
            assert_eq!(inside.load(Ordering::Relaxed), 0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_forked_child_makes_its_own_threads() {
        for_each(8, 2, |_| {});
        // SAFETY: the child runs only code of this crate and leaves with _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let sum = AtomicUsize::new(0);
            for_each(8, 2, |i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            // SAFETY: plain system call.
            unsafe { libc::_exit(i32::from(sum.into_inner() != 28)) };
        }
        let (mut status, mut waited) = (0, 0);
        for _ in 0..500 {
            // SAFETY: `child` is ours.
            waited = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
            if waited != 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if waited == 0 {
            // SAFETY: `child` is ours and hangs.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        assert_eq!((waited, status), (child, 0), "the child hung or failed");
    }
}
