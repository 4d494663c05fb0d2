//! The errors for invalid tools, and the removal of attributes that only `#[tool]` knows.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemFn;

use crate::definition::Library;
use crate::expand::{expand, offered};
use crate::item::Item;
use crate::rule::Rule;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

/// Returns the items that the attribute adds beside a function, as tokens with spaces between them.
fn expanded(attribute: &str, function: &str) -> String {
    let mut function: ItemFn = syn::parse_str(function).unwrap();
    offered(Library::Sdk, Item::Tool, tokens(attribute), &mut function).unwrap().to_string()
}

fn errors(attribute: &str, function: &str) -> Vec<String> {
    errors_of(Item::Tool, attribute, function)
}

fn errors_of(item: Item, attribute: &str, function: &str) -> Vec<String> {
    let mut function: ItemFn = syn::parse_str(function).unwrap();
    let error = offered(Library::Sdk, item, tokens(attribute), &mut function).unwrap_err();
    error.into_iter().map(|error| error.to_string()).collect()
}

/// Checks that a function violates `rule` and no other.
fn assert_breaks(rule: Rule, function: &str) {
    assert_eq!(errors("", function), [rule.to_string()], "{function}");
}

#[test]
fn unsupported_parameters_are_errors() {
    for (rule, parameter) in [
        (Rule::BorrowedParameter, "a: &mut f64"),
        (Rule::BorrowedParameter, "a: &'static str"),
        (Rule::BorrowedParameter, "a: Option<&str>"),
        (Rule::BorrowedParameter, "a: Cow<'_, str>"),
        (Rule::BorrowedParameter, "a: &[&str]"),
        (Rule::BorrowedParameter, "a: (f64, [&f64; 2])"),
        (Rule::ConditionalParameter, "#[cfg(unix)] a: f64"),
        (Rule::ConditionalParameter, "#[cfg_attr(unix, serde(default))] a: f64"),
        (Rule::ConditionalParameter, "#[cfg(unix)] call: &Call<'_>"),
        (Rule::ImplParameter, "a: impl Into<String>"),
        (Rule::InputWithOthers, "#[tool(input)] a: A, b: f64"),
        (Rule::InputWithOthers, "#[tool(input)] a: A, #[tool(input)] b: B"),
        (Rule::NoMember, "#[tool(input)] #[serde(default)] a: A"),
        (Rule::NoMember, "#[schemars(skip)] call: &Call<'_>"),
        (Rule::NoPattern, "(a, b): (f64, f64)"),
        (Rule::NoPattern, "_: f64"),
        (Rule::NoPattern, "Add { a, b }: Add"),
        (Rule::NoPattern, "ref a: f64"),
        (Rule::SelfOutsideOfOffer, "&self"),
        (Rule::SelfOutsideOfOffer, "self: Arc<Self>, a: f64"),
        (Rule::UnknownMark, "#[tool(inputs)] a: A"),
        (Rule::UnknownMark, "#[tool] a: A"),
    ] {
        assert_breaks(rule, &format!("fn f({parameter}) {{}}"));
    }
}

#[test]
fn call_and_context_parameters_must_follow_the_rules() {
    for (rule, function) in [
        (Rule::AsyncWithCall, "async fn f(a: f64, call: &Call<'_>) {}"),
        (Rule::CallByValue, "fn f(call: Call<'_>) {}"),
        (Rule::ContextByReference, "async fn f(context: &Context) {}"),
        (Rule::ContextWithoutAsync, "fn f(context: sdk::Context) {}"),
        (Rule::NotLast, "async fn f(context: Context, a: f64) {}"),
        (Rule::NotLast, "async fn f(context: Context, again: Context) {}"),
        (Rule::NotLast, "fn f(call: &Call, a: f64) {}"),
    ] {
        assert_breaks(rule, function);
    }
}

/// The input type of a tool may also be named `Context` or `Call`, because `#[tool(input)]` marks it.
#[test]
fn input_type_can_have_the_name_of_an_sdk_type() {
    let written = expanded("", "fn f(#[tool(input)] context: Context, call: &Call<'_>) {}");
    assert!(
        written.contains("__input : Context") && written.contains("f (__input , __context)"),
        "{written}"
    );
}

#[test]
fn generic_and_unsafe_functions_are_errors() {
    assert_breaks(Rule::Generic, "fn f<T: Sum>(a: T) {}");
    assert_breaks(Rule::Generic, "fn f<'a>(a: String) -> Cow<'a, str> {}");
    assert_breaks(Rule::Unsafe, "unsafe fn f() {}");
}

#[test]
fn invalid_attribute_arguments_are_errors() {
    for (rule, attribute) in [
        (Rule::Duplicate, "title = \"one\", read_only, title = \"two\""),
        (Rule::Duplicate, "read_only, read_only = false"),
        (Rule::NoArgument, "\"Adds two numbers\""),
        (Rule::ReadOnlyAndDestructive, "read_only, destructive"),
        (Rule::UnknownArgument, "titel = \"one\""),
        (Rule::UnknownArgument, "read_only_hint = true"),
        (Rule::UnknownArgument, "annotations(read_only = true)"),
    ] {
        assert_eq!(errors(attribute, "fn f() {}"), [rule.to_string()], "{attribute}");
    }
    for (attribute, expected) in [
        ("name", "expected `=`"),
        ("name \"f\"", "expected `=`"),
        ("read_only = 1", "expected boolean literal"),
        ("read_only idempotent", "expected `,`"),
        ("scopes = \"use\"", "expected parentheses"),
        ("scopes()", "expected a scope"),
    ] {
        let errors = errors(attribute, "fn f() {}");
        assert!(matches!(&errors[..], [error] if error.contains(expected)), "{attribute}: {errors:?}");
    }
    for attribute in ["", "read_only,", "read_only = false, destructive", "read_only, destructive = false"] {
        assert!(expanded(attribute, "fn f() {}").contains("Offer for f"), "{attribute}");
    }
}

#[test]
fn prompts_must_follow_the_rules() {
    for (rule, attribute, function) in [
        (Rule::NoArgument, "\"review\"", "fn f() {}"),
        (Rule::UnknownPromptArgument, "read_only", "fn f() {}"),
        (Rule::UnknownPromptArgument, "mime_type = \"text/plain\"", "fn f() {}"),
        (Rule::Generic, "", "fn f<T>(a: T) {}"),
        (Rule::SelfOutsideOfOffer, "", "fn f(&self) {}"),
        (Rule::InputWithOthers, "", "fn f(#[prompt(input)] a: A, b: f64) {}"),
        (Rule::UnknownMark, "", "fn f(#[tool(input)] a: A) {}"),
    ] {
        assert_eq!(errors_of(Item::Prompt, attribute, function), [rule.to_string()], "{function}");
    }
}

#[test]
fn resources_must_follow_the_rules() {
    for (rule, attribute, function) in [
        (Rule::InvalidTemplate, "\"a://{\"", "fn f() {}"),
        (Rule::InvalidTemplate, "\"a://}\"", "fn f() {}"),
        (Rule::InvalidTemplate, "\"a://{}\"", "fn f() {}"),
        (Rule::InvalidTemplate, "\"a://{?q}\"", "fn f(q: String) {}"),
        (Rule::InvalidTemplate, "\"a://{b}{c}\"", "fn f(b: String, c: String) {}"),
        (Rule::InvalidTemplate, "\"a://{b}/{b}\"", "fn f(b: String) {}"),
        (Rule::NoMember, "\"a://{b}\"", "fn f(#[serde(default)] b: String) {}"),
        (Rule::NoUri, "", "fn f() {}"),
        (Rule::NoUri, "name = \"a\"", "fn f() {}"),
        (Rule::NoVariable, "\"a://b\"", "fn f(b: String) {}"),
        (Rule::NoVariable, "\"a://{b}\"", "fn f(b: String, c: String) {}"),
        (Rule::UnknownMark, "\"a://{b}\"", "fn f(#[resource(input)] b: B) {}"),
        (Rule::UnknownResourceArgument, "\"a://b\", read_only", "fn f() {}"),
        (Rule::UnusedVariable, "\"a://{b}/{+c}\"", "fn f(b: String) {}"),
    ] {
        assert_eq!(
            errors_of(Item::Resource, attribute, function),
            [rule.to_string()],
            "{attribute} {function}"
        );
    }
    let both = errors_of(Item::Resource, "\"a://{b}\"", "fn f(c: u8) {}");
    assert_eq!(both, [Rule::NoVariable.to_string(), Rule::UnusedVariable.to_string()]);
}

#[test]
fn all_errors_are_reported_together() {
    let errors = errors("titel", "fn f<T>(&self, (a, b): (T, T), context: Context) {}");
    let rules = [
        Rule::UnknownArgument,
        Rule::Generic,
        Rule::SelfOutsideOfOffer,
        Rule::NoPattern,
        Rule::ContextWithoutAsync,
    ];
    assert_eq!(errors, rules.map(|rule| rule.to_string()));
}

#[test]
fn error_message_contains_a_hint() {
    let error = Rule::CallByValue.at(tokens("call: Call")).to_string();
    assert_eq!(error, "a handler takes `Call` by reference\n\nhint: write `&Call<'_>`");
}

#[test]
fn non_function_item_is_kept_and_gets_compile_error() {
    let written =
        expand(Library::Sdk, Item::Tool, TokenStream::new(), &tokens("struct Add { a: f64 }")).to_string();
    assert!(
        written.contains("compile_error") && written.contains("is only for functions and methods"),
        "{written}"
    );
    assert!(written.ends_with(&tokens("struct Add { a: f64 }").to_string()), "{written}");
}

/// The compiler reports only the error of the tool, because callers of the function still find it.
#[test]
fn invalid_tool_function_is_kept_beside_compile_error() {
    let item =
        tokens("/** Adds. */ fn add(#[serde(default)] a: f64, #[allow(unused)] (b, c): (f64, f64)) {}");
    let written = expand(Library::Sdk, Item::Tool, TokenStream::new(), &item).to_string();
    let function = tokens("/** Adds. */ fn add(a: f64, #[allow(unused)] (b, c): (f64, f64)) {}").to_string();
    assert!(written.starts_with(&function) && written.contains("compile_error"), "{written}");
}

#[test]
fn parameter_attributes_move_to_struct_fields() {
    let function = "fn f(/** One. */ #[serde(default)] a: f64, #[allow(unused)] mut b: &str) {}";
    let written = expanded("", function);
    let expected = tokens(
        "struct __Arguments { #[doc = \" One. \"] #[serde(default)] a: f64, b: ::std::string::String, }",
    );
    assert!(written.contains(&expected.to_string()), "{written}");
}

/// Users of the attribute need no dependency besides the SDK.
#[test]
fn expansion_uses_serde_and_schemars_from_the_sdk() {
    let written = expanded("", "fn f(a: f64) {}");
    for name in ["serde :: ", "schemars :: "] {
        let mut places = written.match_indices(name).map(|(at, _)| &written[..at]).peekable();
        assert!(places.peek().is_some(), "{written}");
        assert!(places.all(|before| before.ends_with(":: thruway_mcp_sdk :: expansion :: ")), "{written}");
    }
    for attribute in ["# [serde (crate = ", "# [schemars (crate = "] {
        assert!(written.contains(&format!("{attribute}\"::thruway_mcp_sdk::expansion::")), "{written}");
    }
}

#[test]
fn cfg_attribute_and_visibility_are_copied_to_the_tool() {
    let written = expanded("", "#[cfg(unix)] #[must_use] pub fn f() -> String {}");
    assert_eq!(written.matches("# [cfg (unix)]").count(), 2, "{written}");
    assert!(written.contains("pub struct f { }") && !written.contains("must_use"), "{written}");
}

#[test]
fn types_in_invisible_groups_are_recognized() {
    let group =
        |text: &str| proc_macro2::Group::new(proc_macro2::Delimiter::None, tokens(text)).into_token_stream();
    let (call, text) = (group("&Call<'_>"), group("&str"));
    let mut function: ItemFn = syn::parse_quote!(fn f(a: #text, call: #call) {});
    let written = offered(Library::Sdk, Item::Tool, TokenStream::new(), &mut function).unwrap().to_string();
    assert!(
        written.contains("a : :: std :: string :: String")
            && written.contains("f (& __input . a , __context)"),
        "{written}"
    );
}
