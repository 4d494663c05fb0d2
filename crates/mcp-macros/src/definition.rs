//! Generates the definition of an item.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Expr, ExprLit, Lit, Meta};

use crate::attribute::Attribute;
use crate::function::Callee;
use crate::item::Item;

/// Returns the expression that creates the definition of the item.
pub(crate) fn definition(
    library: Library,
    item: Item,
    attribute: &Attribute,
    callee: &Callee<'_>,
) -> TokenStream {
    let own_name = callee.signature.ident.unraw().to_string();
    let name = attribute.name.as_ref().map_or_else(|| own_name.to_token_stream(), ToTokens::to_token_stream);
    let title = attribute.title.iter();
    let description = attribute.description.as_ref().map(ToTokens::to_token_stream);
    let description = description.or_else(|| documentation(callee.attributes)).into_iter();
    let new = match item {
        Item::Tool => {
            let annotations = annotations(library, attribute).into_iter();
            quote!(#library::schema::Tool::new(#name) #(.with_annotations(#annotations))*)
        }
        Item::Prompt => quote!(#library::schema::Prompt::new(#name)),
        Item::Resource => {
            let (uri, mime_type) = (&attribute.uri, attribute.mime_type.iter());
            let definition =
                if attribute.is_template() { quote!(ResourceTemplate) } else { quote!(Resource) };
            quote!(#library::schema::#definition::new(#uri, #name) #(.with_mime_type(#mime_type))*)
        }
    };
    quote! {{
        #[allow(unused_mut, reason = "only a title changes the definition")]
        let mut __definition = #new #(.with_description(#description))*;
        #(__definition.title = ::core::option::Option::Some(::core::convert::Into::into(#title));)*
        __definition
    }}
}

/// Returns the hints about the tool's behavior, or `None` if the attribute has no hints.
fn annotations(library: Library, attribute: &Attribute) -> Option<TokenStream> {
    let hints = [
        ("read_only_hint", &attribute.read_only),
        ("destructive_hint", &attribute.destructive),
        ("idempotent_hint", &attribute.idempotent),
        ("open_world_hint", &attribute.open_world),
    ];
    let given: Vec<_> = hints
        .into_iter()
        .filter_map(|(name, hint)| Some((Ident::new(name, Span::call_site()), hint.as_ref()?)))
        .map(|(name, hint)| quote!(#name: ::core::option::Option::Some(#hint)))
        .collect();
    let others = quote!(..::core::default::Default::default());
    (!given.is_empty()).then(|| quote!(#library::schema::ToolAnnotations { #(#given,)* #others }))
}

/// Returns the documentation of the function as an expression, without the first space of each line. The
/// expression joins the lines at compile time, because a line can be an `include_str!`, which the macro
/// cannot read.
fn documentation(attributes: &[syn::Attribute]) -> Option<TokenStream> {
    let lines: Vec<TokenStream> = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(line) if line.path.is_ident("doc") => Some(without_blank(&line.value)),
            _ => None,
        })
        .collect();
    (!lines.is_empty()).then(|| quote!(::core::concat!(#(#lines, "\n"),*).trim()))
}

fn without_blank(line: &Expr) -> TokenStream {
    match line {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let text = text.value();
            text.strip_prefix(' ').unwrap_or(&text).to_token_stream()
        }
        other => other.to_token_stream(),
    }
}

/// The crate that exports the attribute. Generated code names only this crate, so users of the attribute
/// need no other crate of this workspace.
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

    /// Returns the path of the crate. The compiler reports errors about this path at `place`.
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
