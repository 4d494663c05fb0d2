//! The arguments of `#[tool(…)]`, `#[prompt(…)]` and `#[resource(…)]`.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, LitBool, LitStr, Token, parenthesized};

use crate::item::Item;
use crate::rule::Rule;

/// The parsed arguments of an attribute.
#[derive(Default)]
pub(crate) struct Attribute {
    /// The URI or the URI template of a resource.
    pub(crate) uri: Option<LitStr>,
    pub(crate) mime_type: Option<Expr>,
    pub(crate) name: Option<Expr>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    pub(crate) read_only: Option<LitBool>,
    pub(crate) destructive: Option<LitBool>,
    pub(crate) idempotent: Option<LitBool>,
    pub(crate) open_world: Option<LitBool>,
    pub(crate) scopes: Option<Scopes>,
    pub(crate) task_support: Option<Expr>,
}

pub(crate) type Scopes = Punctuated<Expr, Token![,]>;

impl Attribute {
    /// Parses the arguments of the attribute for `item`.
    pub(crate) fn read(item: Item, arguments: TokenStream) -> syn::Result<Self> {
        (|input: ParseStream<'_>| Self::parse(item, input)).parse2(arguments)
    }

    fn parse(item: Item, input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attribute = Self::default();
        if item == Item::Resource {
            attribute.uri = Some(input.parse().map_err(|error| Rule::NoUri.within(error.span()))?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        while !input.is_empty() {
            attribute.parse_argument(item, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        attribute.check()
    }

    fn parse_argument(&mut self, item: Item, input: ParseStream<'_>) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(Rule::NoArgument.at(input.parse::<proc_macro2::TokenTree>()?));
        }
        let name = input.call(Ident::parse_any)?;
        match (item, name.to_string().as_str()) {
            (_, "name") => set(&mut self.name, &name, value(input)?),
            (_, "title") => set(&mut self.title, &name, value(input)?),
            (_, "description") => set(&mut self.description, &name, value(input)?),
            (Item::Tool, "read_only") => set(&mut self.read_only, &name, flag(&name, input)?),
            (Item::Tool, "destructive") => set(&mut self.destructive, &name, flag(&name, input)?),
            (Item::Tool, "idempotent") => set(&mut self.idempotent, &name, flag(&name, input)?),
            (Item::Tool, "open_world") => set(&mut self.open_world, &name, flag(&name, input)?),
            (Item::Tool, "scopes") => set(&mut self.scopes, &name, scopes(input)?),
            (Item::Tool, "task_support") => set(&mut self.task_support, &name, value(input)?),
            (Item::Resource, "mime_type") => set(&mut self.mime_type, &name, value(input)?),
            (Item::Tool, _) => Err(Rule::UnknownArgument.at(name)),
            (Item::Prompt, _) => Err(Rule::UnknownPromptArgument.at(name)),
            (Item::Resource, _) => Err(Rule::UnknownResourceArgument.at(name)),
        }
    }

    /// Returns `true` if the URI of a resource is a template.
    pub(crate) fn is_template(&self) -> bool {
        self.uri.as_ref().is_some_and(|uri| uri.value().contains('{'))
    }

    fn check(self) -> syn::Result<Self> {
        match (&self.read_only, &self.destructive) {
            (Some(LitBool { value: true, .. }), Some(destructive)) if destructive.value => {
                Err(Rule::ReadOnlyAndDestructive.at(destructive))
            }
            _ => Ok(self),
        }
    }
}

fn set<T>(place: &mut Option<T>, name: &Ident, value: T) -> syn::Result<()> {
    match place.replace(value) {
        Some(_) => Err(Rule::Duplicate.at(name)),
        None => Ok(()),
    }
}

/// Parses `= value`.
fn value(input: ParseStream<'_>) -> syn::Result<Expr> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// Parses `= true` or `= false`. Returns `true` if the value is absent.
fn flag(name: &Ident, input: ParseStream<'_>) -> syn::Result<LitBool> {
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        return input.parse();
    }
    Ok(LitBool::new(true, name.span()))
}

/// Parses `("one", "another")`.
fn scopes(input: ParseStream<'_>) -> syn::Result<Scopes> {
    let list;
    parenthesized!(list in input);
    if list.is_empty() {
        return Err(list.error("expected a scope"));
    }
    Punctuated::parse_terminated(&list)
}
