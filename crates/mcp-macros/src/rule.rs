//! The rules for attributes, and the error messages for violations.

use std::fmt;

use quote::ToTokens;

/// A violated rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    AsyncWithCall,
    BorrowedParameter,
    BorrowedState,
    CallByValue,
    ChoiceWithData,
    ConditionalParameter,
    ContextByReference,
    ContextWithoutAsync,
    Duplicate,
    FlatForm,
    Generic,
    GenericForm,
    ImplParameter,
    InputWithOthers,
    InvalidTemplate,
    MutableSelf,
    NoArgument,
    NoForm,
    NoFunction,
    NoImpl,
    NoItem,
    NoMember,
    NoPattern,
    NoUri,
    NoVariable,
    NotLast,
    OfferArgument,
    OwnedSelf,
    ReadOnlyAndDestructive,
    SelfOutsideOfOffer,
    TraitImpl,
    UnknownArgument,
    UnknownMark,
    UnknownPromptArgument,
    UnknownResourceArgument,
    Unsafe,
    UnusedVariable,
}

impl Rule {
    /// Returns the error for a violation of the rule at `place`.
    pub(crate) fn at(self, place: impl ToTokens) -> syn::Error {
        syn::Error::new_spanned(place, self)
    }

    /// Returns the error for a violation of the rule at `span`.
    pub(crate) fn within(self, span: proc_macro2::Span) -> syn::Error {
        syn::Error::new(span, self)
    }

    /// Returns the error message and a hint.
    #[expect(clippy::too_many_lines, reason = "a table of messages")]
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::AsyncWithCall => (
                "an `async` function cannot take `Call`, because its future may outlive the request",
                "take a `Context`, which has the same information",
            ),
            Self::BorrowedParameter => (
                "the type of a parameter cannot contain references or lifetimes",
                "only a whole parameter can be `&str`, `&[T]` or `&T`; inside of other \
                 types, write `String`, `Vec<T>` or `T`",
            ),
            Self::BorrowedState => (
                "a type with `#[offer]` cannot have lifetimes, because the server keeps the value",
                "write a type that owns its values, such as `String` or `Arc<T>`",
            ),
            Self::CallByValue => ("a handler takes `Call` by reference", "write `&Call<'_>`"),
            Self::ChoiceWithData => (
                "a choice in a form is a text, so the variants cannot have data, and serde must write their names",
                "remove the data, or `tag`, `content` and `untagged`",
            ),
            Self::ConditionalParameter => (
                "a parameter of a handler cannot be conditional",
                "write two functions, each with its own `#[cfg]`",
            ),
            Self::ContextByReference => ("a handler takes `Context` by value", "write `Context`"),
            Self::ContextWithoutAsync => (
                "a handler that takes a `Context` must be `async`",
                "write `async fn`, or take `&Call<'_>` for information about the request",
            ),
            Self::Duplicate => ("this argument or attribute is repeated", "remove all but one"),
            Self::FlatForm => (
                "a form cannot contain the fields of another type",
                "write the fields into this struct instead of `#[serde(flatten)]`",
            ),
            Self::Generic => (
                "a handler cannot be generic: clients call it by name, with arguments of one schema",
                "write concrete types",
            ),
            Self::GenericForm => {
                ("a form or a choice cannot be generic", "write concrete types without lifetimes")
            }
            Self::ImplParameter => {
                ("a parameter of a handler cannot have an `impl` type", "write a concrete type")
            }
            Self::InputWithOthers => (
                "a parameter for all arguments must be the only parameter besides `Context` or `&Call<'_>`",
                "move the other parameters into the type of this parameter, or remove its mark `input` \
                 and take each argument as a parameter",
            ),
            Self::InvalidTemplate => (
                "this URI template is invalid",
                "write variables as `{name}`, or `{+name}` for a value with slashes; \
                 use each name once, with other characters between two variables",
            ),
            Self::MutableSelf => (
                "a handler cannot take `&mut self`, because several calls can run at the same time",
                "write `&self`, and keep values that change in a `Mutex` or an atomic",
            ),
            Self::NoArgument => (
                "each argument of this attribute must begin with its name",
                "write the description as the doc comment of the function, or as `description = \"…\"`",
            ),
            Self::NoForm => (
                "`#[derive(ElicitForm)]` is for structs with named fields, and for enums without data",
                "write `struct Booking { city: String }`",
            ),
            Self::NoFunction => (
                "this attribute is only for functions and methods",
                "for methods, write `#[offer]` above the `impl` block and this attribute above each method",
            ),
            Self::NoImpl => {
                ("`#[offer]` is only for `impl` blocks", "for a function, write `#[tool]` without `#[offer]`")
            }
            Self::NoItem => (
                "this `impl` block has no tools, prompts or resources",
                "write `#[tool]`, `#[prompt]` or `#[resource]` above at least one method",
            ),
            Self::NoMember => (
                "this parameter is not a member of the arguments, so it cannot have \
                 attributes for serde or schemars",
                "remove the attribute, or move it to a type of your own",
            ),
            Self::NoPattern => (
                "a parameter of a handler must be an identifier, because the identifier names the argument",
                "write `name: Type`, and destructure the value in the body",
            ),
            Self::NoUri => (
                "`#[resource]` must begin with a URI or a URI template",
                "write `#[resource(\"config://app\")]` or `#[resource(\"users://{id}\")]`",
            ),
            Self::NoVariable => (
                "the URI has no variable with the name of this parameter",
                "add the variable to the URI, as in `users://{id}`, or remove the parameter",
            ),
            Self::NotLast => ("`Context` or `&Call<'_>` must be the last parameter", "move it to the end"),
            Self::OfferArgument => {
                ("`#[offer]` has no arguments", "write the arguments of each tool into its `#[tool(…)]`")
            }
            Self::OwnedSelf => {
                ("a handler must take `self` as `&self`, because all calls share one value", "write `&self`")
            }
            Self::ReadOnlyAndDestructive => {
                ("a tool that is `read_only` cannot be `destructive`", "remove `read_only` or `destructive`")
            }
            Self::SelfOutsideOfOffer => (
                "a handler can take `&self` only in an `impl` block with `#[offer]`",
                "write `#[offer]` above the `impl` block",
            ),
            Self::TraitImpl => (
                "`#[offer]` is not for implementations of traits",
                "move the methods to an `impl` block of the type, which can call the methods of the trait",
            ),
            Self::UnknownArgument => (
                "unknown argument of `#[tool]`",
                "the arguments are `name`, `title`, `description`, `read_only`, `destructive`, \
                 `idempotent`, `open_world`, `scopes` and `task_support`",
            ),
            Self::UnknownMark => (
                "unknown mark of a parameter",
                "in tools, `#[tool(input)]` marks a parameter that receives all arguments, and in prompts \
                 `#[prompt(input)]`; other parameters can have attributes for serde and schemars",
            ),
            Self::UnknownPromptArgument => {
                ("unknown argument of `#[prompt]`", "the arguments are `name`, `title` and `description`")
            }
            Self::UnknownResourceArgument => (
                "unknown argument of `#[resource]`",
                "the arguments are the URI, and then `name`, `title`, `description` and `mime_type`",
            ),
            Self::Unsafe => (
                "a handler cannot be `unsafe`: clients can call it with any arguments",
                "check the arguments in a safe function",
            ),
            Self::UnusedVariable => {
                ("a variable of this URI has no parameter", "add a parameter with the name of the variable")
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, hint) = self.words();
        write!(f, "{message}\n\nhint: {hint}")
    }
}

/// Collects errors, so that the compiler reports all of them together.
#[derive(Default)]
pub(crate) struct Broken(Option<syn::Error>);

impl Broken {
    /// Returns the value of `outcome`. If `outcome` is an error, stores the error and returns `None`.
    pub(crate) fn note<T>(&mut self, outcome: syn::Result<T>) -> Option<T> {
        outcome.map_err(|error| self.add(error)).ok()
    }

    /// Returns `true` if no error is stored.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the result of `whole`, or the stored errors.
    pub(crate) fn or_else<T>(self, whole: impl FnOnce() -> T) -> syn::Result<T> {
        self.0.map_or_else(|| Ok(whole()), Err)
    }
}
