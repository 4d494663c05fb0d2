//! Expands `#[offer]` on an `impl` block: adds `Offer` implementations to the unchanged block. They add each
//! method with `#[tool]`, `#[prompt]` or `#[resource]` to a server.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ImplItem, ImplItemFn, ItemImpl, Meta};

use crate::definition::Library;
use crate::expand::{READ, added, read};
use crate::function::{Callee, Input, Place};
use crate::item::Item;
use crate::rule::{Broken, Rule};

#[cfg(test)]
mod tests;

/// Expands the attribute. The compiler reports each error at the code that caused it.
pub(crate) fn offer(library: Library, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let Ok(mut block) = syn::parse2::<ItemImpl>(item.clone()) else {
        let error = Rule::NoImpl.at(item).into_compile_error();
        return quote!(#error #item);
    };
    let offered = offered(library, attribute, &mut block).unwrap_or_else(syn::Error::into_compile_error);
    quote!(#block #offered)
}

/// Returns the items that the attribute adds next to the block. Replaces the arguments of the methods'
/// attributes, and removes the attributes that the compiler does not accept on parameters.
pub(crate) fn offered(
    library: Library,
    attribute: TokenStream,
    block: &mut ItemImpl,
) -> syn::Result<TokenStream> {
    let mut broken = Broken::default();
    if !attribute.is_empty() {
        broken.note::<()>(Err(Rule::OfferArgument.at(attribute)));
    }
    broken.note(check_block(block));
    let owner = block.self_ty.to_token_stream();
    let mut items = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        if let Some((item, attribute)) = take_attribute(method) {
            let added =
                attribute.and_then(|attribute| added_method(library, item, attribute, method, &owner));
            items.extend(broken.note(added));
        }
    }
    if items.is_empty() && broken.is_empty() {
        broken.note::<()>(Err(Rule::NoItem.at(&block.self_ty)));
    }
    broken.or_else(|| implementations(library, block, &items))
}

fn check_block(block: &ItemImpl) -> syn::Result<()> {
    if let Some((name, _)) = &block.trait_ {
        return Err(Rule::TraitImpl.at(name));
    }
    if block.generics.lifetimes().next().is_some() || has_elided_lifetime(block.self_ty.to_token_stream()) {
        return Err(Rule::BorrowedState.at(&block.self_ty));
    }
    Ok(())
}

/// Returns `true` if the type `kind` contains the lifetime `'_`.
fn has_elided_lifetime(kind: TokenStream) -> bool {
    let mut is_in_lifetime = false;
    kind.into_iter().any(|token| match token {
        TokenTree::Group(group) => has_elided_lifetime(group.stream()),
        TokenTree::Ident(name) => std::mem::take(&mut is_in_lifetime) && name == "_",
        TokenTree::Punct(sign) => {
            is_in_lifetime = sign.as_char() == '\'';
            false
        }
        TokenTree::Literal(_) => false,
    })
}

/// Returns the item that a method becomes and the arguments of its attribute, or `None` if the method becomes
/// no item. The attribute stays on the method, so that the compiler and editors resolve its name. Its new
/// argument makes it do nothing.
fn take_attribute(method: &mut ImplItemFn) -> Option<(Item, syn::Result<TokenStream>)> {
    let mut marks = method.attrs.iter_mut().filter(|attribute| Item::of(attribute.path()).is_some());
    let first = marks.next()?;
    let item = Item::of(first.path())?;
    let arguments = match &first.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        other => other.require_list().map(|list| list.tokens.clone()),
    };
    let (path, read) = (first.path().clone(), Ident::new(READ, Span::call_site()));
    first.meta = syn::parse_quote!(#path(#read));
    let arguments = match marks.next() {
        Some(second) => Err(Rule::Duplicate.at(second)),
        None => arguments,
    };
    Some((item, arguments))
}

/// Returns the statement that adds a method to the server.
fn added_method(
    library: Library,
    item: Item,
    attribute: TokenStream,
    method: &mut ImplItemFn,
    owner: &TokenStream,
) -> syn::Result<TokenStream> {
    let (attribute, mut taken) = read(item, attribute, &mut method.sig, Place::Impl)?;
    name_owner(&mut taken.input, owner);
    let conditions = method.attrs.iter().filter(|other| other.path().is_ident("cfg"));
    let callee = Callee { attributes: &method.attrs, signature: &method.sig, place: Place::Impl };
    let added = added(library, item, &attribute, &taken, &callee);
    Ok(quote!(#(#conditions)* let () = { #added }?;))
}

/// Replaces `Self` by the type of the `impl` block, because the generated type for the arguments cannot
/// name `Self`.
fn name_owner(input: &mut Input, owner: &TokenStream) {
    // The handler names the other types, and it can name `Self`.
    let Input::Members(members) = input else { return };
    for member in members {
        let kind = std::mem::take(&mut member.kind.owned);
        member.kind.owned = without_self(kind, owner);
    }
}

fn without_self(kind: TokenStream, owner: &TokenStream) -> TokenStream {
    let replaced = kind.into_iter().map(|token| match token {
        TokenTree::Ident(name) if name == "Self" => owner.clone(),
        TokenTree::Group(group) => {
            let inner = without_self(group.stream(), owner);
            TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner)).into()
        }
        other => other.into(),
    });
    replaced.collect()
}

/// Returns the `Offer` implementations. The compiler reports a state that threads cannot share at the type
/// of the block.
fn implementations(library: Library, block: &ItemImpl, items: &[TokenStream]) -> TokenStream {
    let owner = &block.self_ty;
    let (generics, _, conditions) = block.generics.split_for_impl();
    let attributes: Vec<_> = block.attrs.iter().filter(|other| other.path().is_ident("cfg")).collect();
    let place = owner.span().resolved_at(Span::call_site());
    let shared = {
        let library = library.at(place);
        quote_spanned!(place=> #library::expansion::SharedOffer)
    };
    quote! {
        #(#attributes)*
        const _: () = {
            impl #generics #library::Offer for #owner #conditions {
                fn offer(
                    self,
                    __server: &#library::McpServer,
                ) -> ::core::result::Result<(), #library::RegistrationError> {
                    #library::Offer::offer(::std::sync::Arc::new(self), __server)
                }
            }

            impl #generics #shared for #owner #conditions {
                fn offer_shared(
                    self: ::std::sync::Arc<Self>,
                    __server: &#library::McpServer,
                ) -> ::core::result::Result<(), #library::RegistrationError> {
                    let __self = self;
                    #(#items)*
                    ::core::result::Result::Ok(())
                }
            }
        };
    }
}
