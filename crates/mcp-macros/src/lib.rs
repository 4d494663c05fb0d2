//! The attributes `#[tool]`, which turns functions and methods into tools, and `#[offer]`, which finds the
//! tools in an `impl` block.
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
mod handler;
mod expand;
mod methods;

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

#[expect(missing_docs, reason = "`thruway_mcp_sdk::offer` has them")]
#[proc_macro_attribute]
pub fn offer(attribute: TokenStream, item: TokenStream) -> TokenStream {
    methods::offer(Library::Sdk, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::tool` has them")]
#[proc_macro_attribute]
pub fn server_tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(Library::Server, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::offer` has them")]
#[proc_macro_attribute]
pub fn server_offer(attribute: TokenStream, item: TokenStream) -> TokenStream {
    methods::offer(Library::Server, attribute.into(), &item.into()).into()
}
