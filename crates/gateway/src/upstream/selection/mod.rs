//! Selection: which server gets the next request.

pub(crate) mod balance;
pub(crate) mod sticky;
pub(crate) mod candidates;
pub(crate) mod pick;
pub(crate) mod select;

#[cfg(test)]
mod tests;
