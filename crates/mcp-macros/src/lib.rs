//! The attribute `#[tool]`, which makes tools of functions.
//!
//! The generated code calls the builder of `thruway-mcp-server`, by the crate that exports the attribute:
//! `thruway-mcp-sdk` or `thruway-mcp-server`. Nothing here knows the protocol.
#![forbid(unsafe_code)]

// what is written
mod attribute;
mod function;
mod parameter;

// what may be wrong with it
mod rule;

// what becomes of it
mod definition;
mod expand;

#[cfg(test)]
mod tests;

use definition::Library;
use proc_macro::TokenStream;

// Documented where they are exported, because examples need the crate that exports them.
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
