//! Servers that are children: started with pipes for their input and output, driven through them, ended with the load.

mod child;
mod pipes;

pub use child::{ChildError, ChildServer};
pub(crate) use pipes::Pipes;
