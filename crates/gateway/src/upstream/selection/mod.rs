//! Selection: which server gets the next request.

pub(crate) mod sticky;
pub(crate) mod select;
pub(crate) mod balance;
pub(crate) mod random;
