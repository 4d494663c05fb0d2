//! The rules for tools, and the errors for violations.

use std::fmt;

use quote::ToTokens;

/// A violated rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    AsyncWithCall,
    BorrowedParameter,
    CallByValue,
    ConditionalParameter,
    ContextByReference,
    ContextWithoutAsync,
    Duplicate,
    Generic,
    ImplParameter,
    InputBesideOthers,
    NoArgument,
    NoFunction,
    NoMember,
    NoPattern,
    NotLast,
    ReadOnlyAndDestructive,
    SelfParameter,
    UnknownArgument,
    UnknownMark,
    Unsafe,
}

impl Rule {
    /// Returns the error for a violation at `place`.
    pub(crate) fn at(self, place: impl ToTokens) -> syn::Error {
        syn::Error::new_spanned(place, self)
    }

    /// Returns the error and a hint.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::AsyncWithCall => (
                "`Call` is borrowed from a request, which an `async` function may outlive",
                "take a `Context`, which says the same and more",
            ),
            Self::BorrowedParameter => (
                "what a parameter is read as cannot borrow",
                "`&str`, `&[T]` and `&T` are for whole parameters: within other types, write `String`, `Vec<T>` and `T`",
            ),
            Self::CallByValue => ("`Call` is borrowed from the request", "write `&Call<'_>`"),
            Self::ConditionalParameter => (
                "a parameter of a tool cannot depend on a condition",
                "write two functions, each with a `#[cfg]`",
            ),
            Self::ContextByReference => ("`Context` is taken by value", "write `Context`"),
            Self::ContextWithoutAsync => (
                "a function that takes a `Context` is `async`",
                "write `async fn`, or take `&Call<'_>` to be told of the request",
            ),
            Self::Duplicate => ("this is said twice", "leave one out"),
            Self::Generic => (
                "a tool is not generic: it is called by its name, with arguments that have one schema",
                "name the types",
            ),
            Self::ImplParameter => ("a parameter is read as a type that has a name", "name the type"),
            Self::InputBesideOthers => (
                "`#[tool(input)]` marks the only parameter beside `Context` or `&Call<'_>`",
                "make the others members of its type, or take all of them as parameters",
            ),
            Self::NoArgument => (
                "an argument of `#[tool]` begins with its name",
                "the description is the doc comment of the function, or `description = \"…\"`",
            ),
            Self::NoFunction => ("`#[tool]` is for functions", "types take part with `impl Offer`"),
            Self::NoMember => (
                "only a parameter that is a member of the arguments has attributes of serde and schemars",
                "leave it out; those of a whole input are at its type",
            ),
            Self::NoPattern => (
                "a parameter of a tool is an identifier, which is the name of the argument",
                "write `name: Type`, and take it apart in the body",
            ),
            Self::NotLast => {
                ("what a tool is told of its request is its last parameter", "move it to the end")
            }
            Self::ReadOnlyAndDestructive => {
                ("what changes nothing cannot destroy anything", "leave out `read_only` or `destructive`")
            }
            Self::SelfParameter => (
                "a tool is a function without `self`",
                "offer a closure that holds what it needs, with `McpServer::tool`",
            ),
            Self::UnknownArgument => (
                "`#[tool]` has no such argument",
                "there are `name`, `title`, `description`, `read_only`, `destructive`, `idempotent`, `open_world`, \
                 `scopes` and `task_support`",
            ),
            Self::UnknownMark => (
                "a parameter has no such mark",
                "`#[tool(input)]` marks one whose type is that of all arguments; others take attributes of serde and schemars",
            ),
            Self::Unsafe => ("a tool is not `unsafe`: clients call it with anything", "check what it needs"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, hint) = self.words();
        write!(f, "{message}\n\nhint: {hint}")
    }
}

/// Collects errors, so that all of them are reported together.
#[derive(Default)]
pub(crate) struct Broken(Option<syn::Error>);

impl Broken {
    /// Returns the value, or stores the error.
    pub(crate) fn note<T>(&mut self, outcome: syn::Result<T>) -> Option<T> {
        outcome.map_err(|error| self.add(error)).ok()
    }

    fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the result of `whole` if there were no errors.
    pub(crate) fn or_else<T>(self, whole: impl FnOnce() -> T) -> syn::Result<T> {
        self.0.map_or_else(|| Ok(whole()), Err)
    }
}
