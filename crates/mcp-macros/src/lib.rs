//! The attribute `#[tool]`, which turns functions into tools.
//!
//! The generated code calls the builder of `thruway-mcp-server`. The path of the builder starts with the
//! crate that exports the attribute: `thruway-mcp-sdk` or `thruway-mcp-server`. This crate does not
//! depend on the protocol crates.
#![forbid(unsafe_code)]

// input
mod attribute;
mod function;
mod parameter;

// errors
mod rule;

// output
mod definition;
mod expand;

#[cfg(test)]
mod tests;

use definition::Library;
use proc_macro::TokenStream;

// The crates that export these macros also document them, because the examples in the documentation need
// those crates.
#[expect(missing_docs, reason = "`thruway_mcp_sdk::tool` has them")]
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(Library::Sdk, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::tool` has them")]
#[proc_macro_attribute]
pub fn server_tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(Library::Server, attribute.into(), &item.into()).into()
}
