//! The crate whose names the generated code uses.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};

/// The crate that exports the attribute. Its users need no other crate of this workspace as a dependency.
#[derive(Clone, Copy)]
pub(crate) enum Library {
    Sdk,
    Server,
}

impl Library {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sdk => "thruway_mcp_sdk",
            Self::Server => "thruway_mcp_server",
        }
    }

    /// Returns the path of the crate. The compiler reports errors in it at `place`.
    pub(crate) fn at(self, place: Span) -> TokenStream {
        let name = Ident::new(self.name(), place);
        quote_spanned!(place=> ::#name)
    }
}

impl ToTokens for Library {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.at(Span::call_site()));
    }
}
