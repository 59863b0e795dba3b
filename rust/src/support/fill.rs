//! The limit that hashing is measured against: writing a result's bytes and nothing else.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::pointers::SharedMut;
use super::pool;

/// What every byte becomes.
pub const BYTE: u8 = 0xA5;

/// Bytes that threads take at a time: large enough that taking costs nothing, small enough that they end together.
const PART: usize = 1 << 18;

/// Writes [`BYTE`] to all of `out` on up to `threads` threads: with plain stores (`temporal`), which leave the bytes in
/// the caches, or with stores that go around them, where the processor has such.
///
/// Neither may be `slice::fill`: memset chooses between the two kinds by itself, by size.
pub fn fill(out: &mut [u8], temporal: bool, threads: usize) {
    let parts = if threads < 2 { 1 } else { out.len().div_ceil(PART) };
    let size = out.len().div_ceil(parts.max(1)).next_multiple_of(64);
    let (len, start) = (out.len(), SharedMut::new(out.as_mut_ptr()));
    pool::for_each(parts, threads, |part| {
        let (from, to) = ((part * size).min(len), ((part + 1) * size).min(len));
        // SAFETY: `from <= to <= len`, and the parts do not overlap.
        let part = unsafe { std::slice::from_raw_parts_mut(start.at(from), to - from) };
        fill_part(part, temporal);
    });
}

#[cfg(not(target_arch = "x86_64"))]
fn fill_part(part: &mut [u8], _temporal: bool) {
    plain(part);
}

/// Word by word. The value is hidden from the compiler, which would otherwise call memset.
fn plain(part: &mut [u8]) {
    let word = std::hint::black_box([BYTE; 16]);
    let mut words = part.chunks_exact_mut(16);
    for chunk in &mut words {
        chunk.copy_from_slice(&word);
    }
    words.into_remainder().fill(BYTE);
}

#[cfg(target_arch = "x86_64")]
fn fill_part(part: &mut [u8], temporal: bool) {
    let head = part.as_ptr().align_offset(64).min(part.len());
    let (head, rest) = part.split_at_mut(head);
    let (body, tail) = rest.split_at_mut(rest.len() / 64 * 64);
    plain(head);
    // SAFETY: `body` is a whole number of 64-byte lines, aligned to one, and AVX is there where it is used.
    unsafe {
        match (is_x86_feature_detected!("avx"), temporal) {
            (true, true) => lines_256::<false>(body),
            (true, false) => lines_256::<true>(body),
            (false, true) => lines_128::<false>(body),
            (false, false) => lines_128::<true>(body),
        }
    }
    plain(tail);
}

/// # Safety
/// The processor has AVX; `body` is aligned to 64 bytes and a multiple of 64 bytes long.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn lines_256<const STREAM: bool>(body: &mut [u8]) {
    let value = std::hint::black_box(_mm256_set1_epi8(BYTE as i8));
    for line in body.chunks_exact_mut(64) {
        let at: *mut __m256i = line.as_mut_ptr().cast();
        // SAFETY: `at` is the start of 64 bytes aligned to 64.
        unsafe {
            if STREAM {
                _mm256_stream_si256(at, value);
                _mm256_stream_si256(at.add(1), value);
            } else {
                _mm256_store_si256(at, value);
                _mm256_store_si256(at.add(1), value);
            }
        }
    }
    if STREAM {
        _mm_sfence();
    }
}

/// # Safety
/// `body` is aligned to 64 bytes and a multiple of 64 bytes long.
#[cfg(target_arch = "x86_64")]
unsafe fn lines_128<const STREAM: bool>(body: &mut [u8]) {
    // SAFETY: every processor of this architecture has SSE2.
    let value = std::hint::black_box(unsafe { _mm_set1_epi8(BYTE as i8) });
    for line in body.chunks_exact_mut(64) {
        let at: *mut __m128i = line.as_mut_ptr().cast();
        for i in 0..4 {
            // SAFETY: `at` is the start of 64 bytes aligned to 64.
            unsafe {
                if STREAM {
                    _mm_stream_si128(at.add(i), value);
                } else {
                    _mm_store_si128(at.add(i), value);
                }
            }
        }
    }
    if STREAM {
        // SAFETY: every processor of this architecture has SSE.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_written_and_none_beside() {
        for len in (0..200).chain([PART - 1, 3 * PART + 77]) {
            for (temporal, threads, shift) in [(true, 1, 0), (false, 1, 5), (true, 2, 3), (false, 3, 0)] {
                let mut bytes = vec![0u8; len + shift + 1];
                fill(&mut bytes[shift..shift + len], temporal, threads);
                assert!(bytes[shift..shift + len].iter().all(|&byte| byte == BYTE), "{len} {temporal} {threads}");
                assert!(bytes[..shift].iter().all(|&byte| byte == 0) && bytes[shift + len] == 0);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn processors_without_avx_fill_the_same() {
        let mut bytes = vec![0u8; 1024];
        let head = bytes.as_ptr().align_offset(64);
        let body = &mut bytes[head..head + 512];
        // SAFETY: aligned and eight lines long.
        unsafe { lines_128::<true>(body) };
        assert!(body.iter().all(|&byte| byte == BYTE));
        body.fill(0);
        // SAFETY: aligned and eight lines long.
        unsafe { lines_128::<false>(body) };
        assert!(body.iter().all(|&byte| byte == BYTE));
    }
}
