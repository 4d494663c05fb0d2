//! The attributes `#[tool]`, `#[prompt]` and `#[resource]`, which turn functions and methods into items of a
//! server, and `#[offer]`, which finds the items in an `impl` block. `#[derive(ElicitForm)]` turns structs into
//! forms for the user.
//!
//! The generated code calls the builder of `thruway-mcp-server`. The path of the builder starts with the
//! crate that exports the attribute: `thruway-mcp-sdk` or `thruway-mcp-server`. This crate does not
//! depend on the protocol crates.
#![forbid(unsafe_code)]

// input
mod item;
mod attribute;
mod parameter;
mod function;
mod uri_template;

// errors
mod rule;

// output
mod definition;
mod handler;
mod expand;
mod methods;
mod form;

#[cfg(test)]
mod tests;

use definition::Library;
use item::Item;
use proc_macro::TokenStream;

// The crates that export these macros also document them, because the examples in the documentation need
// those crates.
#[expect(missing_docs, reason = "`thruway_mcp_sdk::tool` has them")]
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Sdk, Item::Tool, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_sdk::prompt` has them")]
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Sdk, Item::Prompt, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_sdk::resource` has them")]
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Sdk, Item::Resource, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_sdk::offer` has them")]
#[proc_macro_attribute]
pub fn offer(attribute: TokenStream, item: TokenStream) -> TokenStream {
    methods::offer(Library::Sdk, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::tool` has them")]
#[proc_macro_attribute]
pub fn server_tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Server, Item::Tool, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::prompt` has them")]
#[proc_macro_attribute]
pub fn server_prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Server, Item::Prompt, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::resource` has them")]
#[proc_macro_attribute]
pub fn server_resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Library::Server, Item::Resource, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::offer` has them")]
#[proc_macro_attribute]
pub fn server_offer(attribute: TokenStream, item: TokenStream) -> TokenStream {
    methods::offer(Library::Server, attribute.into(), &item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_sdk::ElicitForm` has them")]
#[proc_macro_derive(ElicitForm)]
pub fn elicit_form(item: TokenStream) -> TokenStream {
    form::derive(Library::Sdk, item.into()).into()
}

#[expect(missing_docs, reason = "`thruway_mcp_server::ElicitForm` has them")]
#[proc_macro_derive(ServerElicitForm)]
pub fn server_elicit_form(item: TokenStream) -> TokenStream {
    form::derive(Library::Server, item.into()).into()
}
