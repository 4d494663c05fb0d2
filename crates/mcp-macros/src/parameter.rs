//! A parameter of a function that becomes an item of a server.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Ident, Pat, PatType, Type, TypeReference};

use crate::item::Item;
use crate::rule::Rule;

/// A parameter of the function and its purpose.
pub(crate) enum Parameter {
    /// A parameter for one member of the arguments object.
    Member(Member),
    /// A parameter for all arguments as one value: `#[tool(input)]` or `#[prompt(input)]`.
    Input(Kind),
    /// A parameter for the request context.
    ContextParameter(ContextParameter),
}

/// A parameter for one member of the arguments object.
pub(crate) struct Member {
    /// The doc comments, and the attributes for serde and schemars.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) kind: Kind,
}

/// The owned type that a parameter is deserialized as. `is_lent` is `true` if the function takes a
/// reference to this type.
pub(crate) struct Kind {
    pub(crate) owned: TokenStream,
    pub(crate) is_lent: bool,
}

/// The type of the request context that a function takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContextParameter {
    Call,
    Context,
}

impl Member {
    /// Returns the name of the member in JSON, if no attribute changes it.
    pub(crate) fn json_name(&self) -> String {
        self.name.unraw().to_string()
    }
}

impl Parameter {
    /// Reads a parameter. Removes the attributes that the compiler does not accept on parameters.
    pub(crate) fn take(item: Item, PatType { attrs, pat, ty, .. }: &mut PatType) -> syn::Result<Self> {
        let (lints, attributes) = std::mem::take(attrs).into_iter().partition(is_lint);
        *attrs = lints;
        let is_input = is_input(item, &attributes)?;
        let context_parameter = if is_input { None } else { context_parameter_of(ty)? };
        // Variables of a URI have no schema and no default.
        if is_input || context_parameter.is_some() || item == Item::Resource {
            check_is_no_member(&attributes)?;
        }
        if let Some(context_parameter) = context_parameter {
            return Ok(Self::ContextParameter(context_parameter));
        }
        let name = name(pat)?;
        let kind = kind(ty)?;
        Ok(if is_input { Self::Input(kind) } else { Self::Member(Member { attributes, name, kind }) })
    }
}

/// Returns `true` if the compiler accepts the attribute on a parameter.
fn is_lint(attribute: &Attribute) -> bool {
    ["allow", "deny", "expect", "forbid", "warn"].iter().any(|lint| attribute.path().is_ident(lint))
}

/// Returns `true` if a parameter is marked with `#[tool(input)]` or `#[prompt(input)]`.
fn is_input(item: Item, attributes: &[Attribute]) -> syn::Result<bool> {
    let mut is_input = false;
    for attribute in attributes {
        if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
            return Err(Rule::ConditionalParameter.at(attribute));
        }
        if let Some(marked) = Item::of(attribute.path()) {
            let is_known = marked == item && item != Item::Resource;
            is_input = is_known && attribute.parse_args::<Ident>().is_ok_and(|mark| mark == "input");
            if !is_input {
                return Err(Rule::UnknownMark.at(attribute));
            }
        }
    }
    Ok(is_input)
}

/// Checks that a parameter has no attributes for serde or schemars. Such attributes are not allowed on the
/// request context, or on a parameter that takes all arguments.
fn check_is_no_member(attributes: &[Attribute]) -> syn::Result<()> {
    let is_known =
        |attribute: &Attribute| attribute.path().is_ident("doc") || Item::of(attribute.path()).is_some();
    match attributes.iter().find(|attribute| !is_known(attribute)) {
        Some(unknown) => Err(Rule::NoMember.at(unknown)),
        None => Ok(()),
    }
}

fn name(pattern: &Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Ok(pattern.ident.clone())
        }
        _ => Err(Rule::NoPattern.at(pattern)),
    }
}

/// Returns the request context type if `kind` is one. Compares only the name of the type, because a macro
/// cannot resolve types.
fn context_parameter_of(kind: &Type) -> syn::Result<Option<ContextParameter>> {
    let (is_lent, named) = match plain(kind) {
        Type::Reference(reference) => (true, plain(&reference.elem)),
        other => (false, other),
    };
    match (last_name(named), is_lent) {
        (Some("Call"), true) => Ok(Some(ContextParameter::Call)),
        (Some("Call"), false) => Err(Rule::CallByValue.at(kind)),
        (Some("Context"), true) => Err(Rule::ContextByReference.at(kind)),
        (Some("Context"), false) => Ok(Some(ContextParameter::Context)),
        _ => Ok(None),
    }
}

fn last_name(kind: &Type) -> Option<&'static str> {
    let Type::Path(path) = kind else { return None };
    let last = &path.path.segments.last()?.ident;
    ["Call", "Context"].into_iter().find(|name| last == name)
}

/// Returns the type `kind` without parentheses and groups around it.
fn plain(kind: &Type) -> &Type {
    match kind {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(parentheses) => plain(&parentheses.elem),
        _ => kind,
    }
}

/// Returns the type that a parameter is deserialized as. For a reference, this is the owned type behind
/// the reference.
fn kind(kind: &Type) -> syn::Result<Kind> {
    let (owned, is_lent) = match plain(kind) {
        Type::Reference(TypeReference { lifetime: None, mutability: None, elem, .. }) => {
            (owned(plain(elem)), true)
        }
        other => (other.to_token_stream(), false),
    };
    match plain(kind) {
        Type::ImplTrait(_) => Err(Rule::ImplParameter.at(kind)),
        _ if is_borrowed(owned.clone()) => Err(Rule::BorrowedParameter.at(kind)),
        _ => Ok(Kind { owned, is_lent }),
    }
}

/// Returns the owned type behind a reference to `kind`.
fn owned(kind: &Type) -> TokenStream {
    match kind {
        Type::Path(path) if path.path.is_ident("str") => quote!(::std::string::String),
        Type::Slice(slice) => {
            let element = &slice.elem;
            quote!(::std::vec::Vec<#element>)
        }
        _ => kind.to_token_stream(),
    }
}

/// Returns `true` if the type `kind` contains a reference or a lifetime.
fn is_borrowed(kind: TokenStream) -> bool {
    kind.into_iter().any(|token| match token {
        TokenTree::Punct(sign) => sign.as_char() == '&' || sign.as_char() == '\'',
        TokenTree::Group(group) => is_borrowed(group.stream()),
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    })
}
