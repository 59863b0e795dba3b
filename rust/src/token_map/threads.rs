//! Work over all ids of a tokenizer, shared out in pieces.

use std::sync::OnceLock;

use crate::Result;
use crate::support::pool;

/// Ids per piece; fewer are not worth a second thread.
const PIECE: usize = 4096;

/// `f` of every id in `0..n` for which it gives something, in the order of the ids; the error of the lowest id wins.
pub(super) fn collect_known<T, F>(n: usize, threads: usize, f: F) -> Result<Vec<(u32, T)>>
where
    T: Send + Sync,
    F: Fn(u32) -> Result<Option<T>> + Sync,
{
    let one = |id: usize| f(id as u32).map(|found| found.map(|value| (id as u32, value))).transpose();
    let pieces: Vec<OnceLock<Result<Vec<_>>>> = (0..n.div_ceil(PIECE)).map(|_| OnceLock::new()).collect();
    pool::for_each(pieces.len(), threads, |i| {
        let known = (i * PIECE..n.min((i + 1) * PIECE)).filter_map(one).collect();
        assert!(pieces[i].set(known).is_ok(), "every piece is handed out once");
    });
    let mut all = Vec::with_capacity(n);
    for piece in pieces {
        all.append(&mut piece.into_inner().expect("every piece is handed out")?);
    }
    Ok(all)
}
