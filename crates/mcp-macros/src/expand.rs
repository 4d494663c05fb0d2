//! Expands `#[tool]` to the unchanged function, a type with the name of the function, and an `Offer`
//! implementation for the type.
//!
//! The type is a struct with braces (`struct name {}`). Rust allows a function with the same name as such a
//! struct. `name {}` is a value of the struct, and `name(…)` is a call of the function.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, ItemFn, ReturnType};

use crate::attribute::Attribute;
use crate::definition::{Library, definition};
use crate::function::{Function, Input};
use crate::parameter::{ContextParameter, Kind, Member};
use crate::rule::{Broken, Rule};

/// Expands the attribute. The compiler reports each error at the code that caused it.
pub(crate) fn tool(library: Library, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let error = Rule::NoFunction.at(item).into_compile_error();
        return quote!(#error #item);
    };
    let offered = offered(library, attribute, &mut function).unwrap_or_else(syn::Error::into_compile_error);
    // Even after an error, the output contains the function. Otherwise the callers of the function would
    // cause further errors.
    quote!(#function #offered)
}

/// Returns the items that the attribute adds next to the function. Removes the attributes that the
/// compiler does not accept on parameters.
pub(crate) fn offered(
    library: Library,
    attribute: TokenStream,
    function: &mut ItemFn,
) -> syn::Result<TokenStream> {
    let mut broken = Broken::default();
    let attribute = broken.note(syn::parse2(attribute)).unwrap_or_default();
    let taken = broken.note(Function::take(function)).unwrap_or_default();
    broken.or_else(|| offer(library, &attribute, &taken, function))
}

/// Returns the type for the tool and its `Offer` implementation.
fn offer(library: Library, attribute: &Attribute, taken: &Function, function: &ItemFn) -> TokenStream {
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let conditions: Vec<_> = function.attrs.iter().filter(|other| other.path().is_ident("cfg")).collect();
    let documentation = format!("The tool for [`{0}`](fn@{0}).", name.unraw());
    let arguments = arguments(library, &taken.input, name);
    let definition = definition(library, attribute, function);
    let scopes = scopes(library, attribute);
    let added = added(library, attribute, taken, function);
    quote! {
        #(#conditions)*
        #[doc = #documentation]
        #[allow(non_camel_case_types, reason = "the type has the name of a function")]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name {}

        #(#conditions)*
        const _: () = {
            #arguments

            impl #library::Offer for #name {
                fn offer(
                    self,
                    __server: &#library::McpServer,
                ) -> ::core::result::Result<(), #library::RegistrationError> {
                    let __definition = #definition;
                    #scopes
                    #added
                }
            }
        };
    }
}

/// Returns the generated type for the arguments. Returns `None` if no parameter is a member of the
/// arguments object.
fn arguments(library: Library, input: &Input, title: &Ident) -> Option<TokenStream> {
    let Input::Members(members) = input else { return None };
    let title = title.unraw().to_string();
    let members = members.iter().map(|Member { attributes, name, kind }| {
        let kind = &kind.owned;
        quote!(#(#attributes)* #name: #kind)
    });
    let path = |name: &str| format!("::{}::expansion::{name}", library.name());
    let (serde, schemars) = (path("serde"), path("schemars"));
    Some(quote! {
        #[derive(#library::expansion::serde::Deserialize, #library::expansion::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars, rename = #title)]
        struct __Arguments {
            #(#members,)*
        }
    })
}

/// Returns the code that makes the tool require OAuth scopes from its callers. This code runs before the tool
/// is added, so clients can never call the tool without the scopes.
fn scopes(library: Library, attribute: &Attribute) -> Option<TokenStream> {
    let scopes = attribute.scopes.as_ref()?;
    Some(quote! {
        let _ = #library::McpServer::require_scopes(
            ::core::clone::Clone::clone(__server),
            __definition.name.as_str(),
            [#scopes],
        );
    })
}

/// Returns the code that adds the tool to the server.
fn added(library: Library, attribute: &Attribute, taken: &Function, function: &ItemFn) -> TokenStream {
    let handler = handler(library, taken, function);
    match &attribute.task_support {
        None => quote!(#library::McpServer::add_tool(__server, __definition, #handler)),
        Some(support) => {
            quote!(#library::McpServer::add_task_tool(__server, __definition, #support, #handler))
        }
    }
}

/// Returns the code of a closure that calls the function. If the function is `async`, the closure returns
/// a future that owns the values behind reference parameters.
fn handler(library: Library, taken: &Function, function: &ItemFn) -> TokenStream {
    let input = match &taken.input {
        Input::None => quote!(#library::NoInput),
        Input::Members(_) => quote!(__Arguments),
        Input::Whole(kind) => kind.owned.clone(),
    };
    let answer = answer(library, taken, function);
    match (taken.context_parameter, function.sig.asyncness) {
        (Some(ContextParameter::Call), _) => {
            quote!(|__input: #input, __context: &#library::Call<'_>| #answer)
        }
        (None, None) => quote!(|__input: #input| #answer),
        _ => quote!(|__input: #input, __context: #library::Context| async move { #answer }),
    }
}

/// Returns the code that calls the function. The compiler reports errors about the answer type at the
/// function's return type.
fn answer(library: Library, taken: &Function, function: &ItemFn) -> TokenStream {
    let mut values = match &taken.input {
        Input::None => Vec::new(),
        Input::Members(members) => members.iter().map(value_of_member).collect(),
        Input::Whole(kind) => vec![value(kind, &quote!(__input))],
    };
    if taken.context_parameter.is_some() {
        values.push(quote!(__context));
    }
    let mut name = function.sig.ident.clone();
    let place = match &function.sig.output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, kind) => kind.span(),
    };
    name.set_span(place.resolved_at(name.span()));
    let place = place.resolved_at(Span::call_site());
    let awaited = function.sig.asyncness.map(|_| quote_spanned!(place=> .await));
    let library = library.at(place);
    quote_spanned!(place=> #library::expansion::answer(#name(#(#values),*) #awaited))
}

fn value_of_member(Member { name, kind, .. }: &Member) -> TokenStream {
    value(kind, &quote!(__input.#name))
}

fn value(kind: &Kind, place: &TokenStream) -> TokenStream {
    if kind.is_lent { quote!(&#place) } else { place.clone() }
}
