//! Global allocator that counts allocations per thread, so tests in other threads do not affect the counts.
//!
//! ```
//! # use thruway_testkit::heap::{CountingAllocator, allocations};
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! fn main() {
//!     let before = allocations();
//!     drop(Box::new(1));
//!     assert_eq!(allocations() - before, 1);
//! }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Wraps the system allocator, and counts the allocations and held bytes of each thread.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    /// This thread-local value needs no lazy initialization and has no destructor, so the allocator can use
    /// it at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Returns the number of allocations and reallocations of this thread.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns the bytes that this thread has allocated, minus the bytes that it has freed. Negative if the
/// thread frees memory of other threads.
pub fn held_bytes() -> isize {
    HELD_BYTES.get()
}

fn count(bytes: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    add_held(bytes);
}

fn add_held(bytes: isize) {
    HELD_BYTES.set(HELD_BYTES.get().wrapping_add(bytes));
}

#[expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: every method passes its arguments unchanged to `System`, which fulfills the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which `System` shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which `System` shares.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: `block` came from `System`, and the caller upholds the rest of the shared contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add_held(-layout.size().cast_signed());
        // SAFETY: `block` came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}
