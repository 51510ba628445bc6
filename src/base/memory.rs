//! Gives freed memory back to the system; glibc keeps most of it.
//!
//! The only module with unsafe code: no crate wraps these two functions, which take numbers and no pointers. It must not
//! know what the memory was for.

use std::time::Duration;

use super::clock;
use super::spawn::run_blocking;

/// Blocks of this size or more, in bytes, are given back when they are freed. glibc begins with half of it and raises it
/// to the largest block freed so far, up to 32 MiB (mallopt(3), `M_MMAP_THRESHOLD`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: i32 = 256 << 10;

/// Below this resident memory, in bytes, looking for freed memory is not worth its time.
const LEAST_RESIDENT: u64 = 32 << 20;
/// How long what a turn leaves may take to be freed.
const DELAY: Duration = Duration::from_secs(1);

/// Makes large blocks go back to the system as soon as they are freed. Call it before other threads start.
pub fn release_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "it takes two numbers, and no other thread runs yet")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}

/// Gives memory back that is freed by a moment from now.
pub async fn release_freed_memory() {
    clock::sleep(DELAY).await;
    // A panic would have been reported.
    let _ = run_blocking(trim_heap).await;
}

/// Blocks for some milliseconds.
fn trim_heap() {
    if read_resident().is_none_or(|resident| resident < LEAST_RESIDENT) {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "it takes a number, and may run at any time")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reads the resident memory of this process in bytes; `None` where the system has no `/proc`.
fn read_resident() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
