//! Gives memory that is no longer needed back to the system. glibc keeps most of it for later, at its highest level.
//!
//! The only module with unsafe code: no crate wraps these two functions, which take numbers and no pointers. It must not
//! know what the memory was for.

use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of this size or more, in bytes, are given back when they are freed. glibc begins with half of it and raises it
/// to the largest block freed so far, up to 32 MiB (mallopt(3), `M_MMAP_THRESHOLD`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: i32 = 256 << 10;

/// Growth, in bytes, from which looking for freed memory is worth its time.
const GROWTH: u64 = 32 << 20;

/// The resident memory after the last look, in bytes.
static LAST_RESIDENT: AtomicU64 = AtomicU64::new(0);

/// Makes large blocks go back to the system as soon as they are freed. Call it before other threads start.
pub fn release_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "it takes two numbers, and no other thread runs yet")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}

/// Gives freed memory back, if the program has grown much since the last time. Blocks for some milliseconds.
pub fn release_freed_memory() {
    let grown_to = LAST_RESIDENT.load(Ordering::Relaxed).saturating_add(GROWTH);
    if read_resident().is_none_or(|resident| resident < grown_to) {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "it takes a number, and may run at any time")]
    unsafe {
        libc::malloc_trim(0);
    }
    LAST_RESIDENT.store(read_resident().unwrap_or(0), Ordering::Relaxed);
}

/// Reads the resident memory of this process in bytes; `None` where the system has no `/proc`.
fn read_resident() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
