//! An allocator for tests that counts. Each thread counts its own allocations, so that tests do not count
//! each other.
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

/// The allocator of the system, which counts what each thread asks of it.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    /// Has no destructor and needs no initialization, so a thread can count at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Returns how many times this thread has allocated or reallocated.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns how many bytes this thread has allocated and not freed. A thread may free what another has
/// allocated, so this can be negative.
pub fn held_bytes() -> isize {
    HELD_BYTES.get()
}

fn count(bytes: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    hold(bytes);
}

fn hold(bytes: isize) {
    HELD_BYTES.set(HELD_BYTES.get().wrapping_add(bytes));
}

#[expect(unsafe_code, reason = "an allocator cannot be written without; this one passes everything on")]
// SAFETY: all memory is that of `System`, which is given exactly the arguments of the caller.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: `block` came from `System`; the caller's other promises are those of `System`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(-layout.size().cast_signed());
        // SAFETY: `block` came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}
