//! Generates the handler of an item: a closure that calls the function.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ReturnType;
use syn::spanned::Spanned;

use crate::definition::Library;
use crate::function::{Callee, Function, Input, Place};
use crate::item::Item;
use crate::parameter::{ContextParameter, Kind, Member};

/// Returns the code of a closure that calls the function. If the function is `async`, the closure returns
/// a future that owns the values behind reference parameters, and shares the value behind `&self`.
pub(crate) fn handler(library: Library, item: Item, taken: &Function, callee: &Callee<'_>) -> TokenStream {
    let kind = match &taken.input {
        Input::None => quote!(#library::NoInput),
        Input::Members(_) => quote!(__Arguments),
        Input::Whole(kind) => kind.owned.clone(),
    };
    // Clients send arguments of prompts and variables of URIs as texts.
    let input = match (item, &taken.input) {
        (Item::Tool, _) | (_, Input::None) => quote!(__input: #kind),
        (Item::Prompt, _) => {
            quote!(#library::expansion::TextArguments(__input): #library::expansion::TextArguments<#kind>)
        }
        (Item::Resource, _) => {
            quote!(#library::expansion::UriVariables(__input): #library::expansion::UriVariables<#kind>)
        }
    };
    let answer = answer(library, item, taken, callee);
    let shared = taken.has_self.then(|| quote!(let __self = ::std::sync::Arc::clone(&__self);));
    let closure = match (taken.context_parameter, callee.signature.asyncness) {
        (Some(ContextParameter::Call), _) => {
            quote!(move |#input, __context: &#library::Call<'_>| #answer)
        }
        (None, None) => quote!(move |#input| #answer),
        (context_parameter, Some(_)) => {
            let context = context_parameter.map(|_| quote!(__context: #library::Context));
            quote! {
                move |#input, #context| {
                    #shared
                    async move { #answer }
                }
            }
        }
        // A function that takes a `Context` is `async`.
        (Some(ContextParameter::Context), None) => TokenStream::new(),
    };
    quote!({ #shared #closure })
}

/// Returns the code that calls the function. The compiler reports errors about the answer type at the
/// function's return type.
fn answer(library: Library, item: Item, taken: &Function, callee: &Callee<'_>) -> TokenStream {
    let mut values = Vec::new();
    if taken.has_self {
        values.push(quote!(&__self));
    }
    match &taken.input {
        Input::None => {}
        Input::Members(members) => values.extend(members.iter().map(value_of_member)),
        Input::Whole(kind) => values.push(value(kind, &quote!(__input))),
    }
    if taken.context_parameter.is_some() {
        values.push(quote!(__context));
    }
    let mut name = callee.signature.ident.clone();
    let place = match &callee.signature.output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, kind) => kind.span(),
    };
    name.set_span(place.resolved_at(name.span()));
    let place = place.resolved_at(Span::call_site());
    let path = match callee.place {
        Place::Module => quote!(#name),
        Place::Impl => quote_spanned!(place=> Self::#name),
    };
    let awaited = callee.signature.asyncness.map(|_| quote_spanned!(place=> .await));
    let library = library.at(place);
    let parsed = match (item, &taken.input) {
        (Item::Tool | Item::Prompt, _) | (_, Input::None) => None,
        (Item::Resource, _) => Some(quote_spanned!(place=> let __input = __input?;)),
    };
    let (kinds, answer) = match item {
        Item::Tool => (quote!(AnswerOfTyped as _, AnswerReady as _), quote!(answer)),
        Item::Prompt => (TokenStream::new(), quote!(prompt)),
        Item::Resource => (quote!(ResourceOfJson as _, ResourceReady as _), quote!(resource)),
    };
    // The methods select the conversion of the value by its type.
    quote_spanned! {place=> {
        use #library::expansion::{
            AnswerOfAny as _, AnswerOfText as _, ErrorOfAny as _, ErrorOfDisplay as _, ErrorOfInto as _,
            NoError as _, Returned, #kinds
        };
        #parsed
        let __returned = #path(#(#values),*) #awaited;
        let __outcome = (&&&&Returned(&__returned)).error_kind().split(__returned);
        __outcome.map(|__value| {
            #library::expansion::#answer((&&&&Returned(&__value)).answer_kind().convert(__value))
        })
    }}
}

fn value_of_member(Member { name, kind, .. }: &Member) -> TokenStream {
    value(kind, &quote!(__input.#name))
}

fn value(kind: &Kind, place: &TokenStream) -> TokenStream {
    if kind.is_lent { quote!(&#place) } else { place.clone() }
}
