//! The store in the memory of one process.

mod collections;
mod table;
mod values;

pub(crate) use values::MemoryStore;
