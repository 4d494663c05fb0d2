//! Expands `#[tool]`, `#[prompt]` and `#[resource]` to the unchanged function, a type with the name of the
//! function, and an `Offer` implementation for the type.
//!
//! The type is a struct with braces (`struct name {}`). Rust allows a function with the same name as such a
//! struct. `name {}` is a value of the struct, and `name(…)` is a call of the function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Ident, ItemFn, Signature};

use crate::attribute::Attribute;
use crate::definition::{Library, definition};
use crate::function::{Callee, Function, Input, Place};
use crate::handler::handler;
use crate::item::Item;
use crate::parameter::Member;
use crate::rule::{Broken, Rule};
use crate::uri_template;

/// The argument of an attribute on a method that `#[offer]` has already read.
pub(crate) const READ: &str = "__read";

/// Expands the attribute. The compiler reports each error at the code that caused it.
pub(crate) fn expand(
    library: Library,
    item: Item,
    attribute: TokenStream,
    code: &TokenStream,
) -> TokenStream {
    if attribute.to_string() == READ {
        return code.clone();
    }
    let Ok(mut function) = syn::parse2::<ItemFn>(code.clone()) else {
        let error = Rule::NoFunction.at(code).into_compile_error();
        return quote!(#error #code);
    };
    let offered =
        offered(library, item, attribute, &mut function).unwrap_or_else(syn::Error::into_compile_error);
    // Even after an error, the output contains the function. Otherwise the callers of the function would
    // cause further errors.
    quote!(#function #offered)
}

/// Returns the items that the attribute adds next to the function. Removes the attributes that the
/// compiler does not accept on parameters.
pub(crate) fn offered(
    library: Library,
    item: Item,
    attribute: TokenStream,
    function: &mut ItemFn,
) -> syn::Result<TokenStream> {
    let (attribute, taken) = read(item, attribute, &mut function.sig, Place::Module)?;
    Ok(offer(library, item, &attribute, &taken, function))
}

/// Reads the attribute and the parameters of a function.
pub(crate) fn read(
    item: Item,
    attribute: TokenStream,
    signature: &mut Signature,
    place: Place,
) -> syn::Result<(Attribute, Function)> {
    let mut broken = Broken::default();
    let attribute = broken.note(Attribute::read(item, attribute));
    let taken = broken.note(Function::take(signature, place, item));
    if let (Some(Attribute { uri: Some(uri), .. }), Some(taken)) = (&attribute, &taken) {
        broken.note(uri_template::check(uri, &taken.input));
    }
    broken.or_else(|| (attribute.unwrap_or_default(), taken.unwrap_or_default()))
}

/// Returns the type for the item and its `Offer` implementation.
fn offer(
    library: Library,
    item: Item,
    attribute: &Attribute,
    taken: &Function,
    function: &ItemFn,
) -> TokenStream {
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let conditions: Vec<_> = function.attrs.iter().filter(|other| other.path().is_ident("cfg")).collect();
    let documentation = format!("The {} for [`{1}`](fn@{1}).", item.name(), name.unraw());
    let callee = Callee { attributes: &function.attrs, signature: &function.sig, place: Place::Module };
    let added = added(library, item, attribute, taken, &callee);
    quote! {
        #(#conditions)*
        #[doc = #documentation]
        #[allow(non_camel_case_types, reason = "the type has the name of a function")]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name {}

        #(#conditions)*
        const _: () = {
            impl #library::Offer for #name {
                fn offer(
                    self,
                    __server: &#library::McpServer,
                ) -> ::core::result::Result<(), #library::RegistrationError> {
                    #added
                }
            }
        };
    }
}

/// Returns the statements that add the item to the server. The last one is an expression of type `Result`.
pub(crate) fn added(
    library: Library,
    item: Item,
    attribute: &Attribute,
    taken: &Function,
    callee: &Callee<'_>,
) -> TokenStream {
    let arguments = arguments(library, item, &taken.input, &callee.signature.ident);
    let definition = definition(library, item, attribute, callee);
    let scopes = scopes(library, attribute);
    let handler = handler(library, item, taken, callee);
    let call = match (item, &attribute.task_support) {
        (Item::Tool, None) => quote!(#library::McpServer::add_tool(__server, __definition, #handler)),
        (Item::Tool, Some(support)) => {
            quote!(#library::McpServer::add_task_tool(__server, __definition, #support, #handler))
        }
        (Item::Prompt, _) => quote! {
            #library::McpServer::add_prompt(__server, __definition, #handler);
            ::core::result::Result::<(), #library::RegistrationError>::Ok(())
        },
        (Item::Resource, _) if attribute.is_template() => {
            quote!(#library::McpServer::add_resource_template(__server, __definition, #handler))
        }
        (Item::Resource, _) => quote! {
            #library::McpServer::add_resource(__server, __definition, #handler);
            ::core::result::Result::<(), #library::RegistrationError>::Ok(())
        },
    };
    quote! {
        #arguments
        let __definition = #definition;
        #scopes
        #call
    }
}

/// Returns the generated type for the arguments. Returns `None` if no parameter is a member of the
/// arguments object.
fn arguments(library: Library, item: Item, input: &Input, title: &Ident) -> Option<TokenStream> {
    let Input::Members(members) = input else { return None };
    let title = title.unraw().to_string();
    let members = members.iter().map(|Member { attributes, name, kind }| {
        let kind = &kind.owned;
        quote!(#(#attributes)* #name: #kind)
    });
    let path = |name: &str| format!("::{}::expansion::{name}", library.name());
    let (serde, schemars) = (path("serde"), path("schemars"));
    let schema = (item != Item::Resource).then(|| {
        quote! {
            #[derive(#library::expansion::schemars::JsonSchema)]
            #[schemars(crate = #schemars, rename = #title)]
        }
    });
    Some(quote! {
        #[derive(#library::expansion::serde::Deserialize)]
        #[serde(crate = #serde)]
        #schema
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
