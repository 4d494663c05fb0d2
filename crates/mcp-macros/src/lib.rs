//! The attribute `#[tool]`, which makes tools of functions.
//!
//! What it writes is what anybody could write with the builder of `thruway-mcp-sdk`, which documents it; nothing here knows the
//! protocol.
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

use proc_macro::TokenStream;

// Documented where it is exported, because examples need the crate that exports it.
#[expect(missing_docs, reason = "`thruway_mcp_sdk::tool` has them")]
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(attribute.into(), &item.into()).into()
}
