//! A federation: several MCP servers behind one endpoint.

// the lists of the members
mod catalog;
mod listing;
mod audience;
mod member_lists;
mod fetch;
#[cfg(test)]
mod catalog_tests;
