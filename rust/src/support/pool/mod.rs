//! The thread pool: as many threads as the caller says, and none of them taken for alive after a fork.
//!
//! A forked child has the parent's memory but not its threads, so work handed to an inherited pool waits for ever. The
//! child therefore forgets the pools in a handler that the system runs right after the fork, before any other code, and
//! makes its own when it first needs one.

mod call;

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
    call::with_helpers(&take_items, helpers, |help| pool.spawn(help));
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
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

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
