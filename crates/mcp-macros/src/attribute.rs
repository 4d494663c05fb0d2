//! The arguments of `#[tool(…)]`.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, LitBool, Token, parenthesized};

use crate::rule::Rule;

/// The parsed arguments of `#[tool(…)]`.
#[derive(Default)]
pub(crate) struct Attribute {
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

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attribute = Self::default();
        while !input.is_empty() {
            attribute.parse_argument(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        attribute.check()
    }
}

impl Attribute {
    fn parse_argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(Rule::NoArgument.at(input.parse::<proc_macro2::TokenTree>()?));
        }
        let name = input.call(Ident::parse_any)?;
        match name.to_string().as_str() {
            "name" => set(&mut self.name, &name, value(input)?),
            "title" => set(&mut self.title, &name, value(input)?),
            "description" => set(&mut self.description, &name, value(input)?),
            "read_only" => set(&mut self.read_only, &name, flag(&name, input)?),
            "destructive" => set(&mut self.destructive, &name, flag(&name, input)?),
            "idempotent" => set(&mut self.idempotent, &name, flag(&name, input)?),
            "open_world" => set(&mut self.open_world, &name, flag(&name, input)?),
            "scopes" => set(&mut self.scopes, &name, scopes(input)?),
            "task_support" => set(&mut self.task_support, &name, value(input)?),
            _ => Err(Rule::UnknownArgument.at(name)),
        }
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
