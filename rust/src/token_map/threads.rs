//! Work over all ids on several threads; the only place of this module that knows a thread pool.

use rayon::prelude::*;

use crate::Result;

/// Threads used where the caller names no number: what the process may use (affinity and cgroup quota).
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `f` of every id in `0..n` for which it gives something, in the order of the ids.
///
/// The pool lives as long as the call: rayon's global pool does not survive a fork, and its size would be decided by
/// the environment.
pub(super) fn collect_known<T, F>(n: usize, threads: usize, f: F) -> Result<Vec<(u32, T)>>
where
    T: Send,
    F: Fn(u32) -> Result<Option<T>> + Sync,
{
    let one = |id: usize| f(id as u32).map(|found| found.map(|value| (id as u32, value))).transpose();
    // Below a few thousand ids starting threads costs more than it saves.
    if threads > 1
        && n > 4096
        && let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(threads).build()
    {
        return pool.install(|| (0..n).into_par_iter().filter_map(one).collect());
    }
    (0..n).filter_map(one).collect()
}
