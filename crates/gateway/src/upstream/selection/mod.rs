//! Selects the server that gets the next request.

pub(crate) mod balance_config;
pub(crate) mod sticky;
pub(crate) mod candidates;
pub(crate) mod balance_methods;
pub(crate) mod select;

#[cfg(test)]
mod tests;
