//! The errors for invalid tools, and the removal of attributes that only `#[tool]` knows.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemFn;

use crate::definition::Library;
use crate::expand::{offered, tool};
use crate::rule::Rule;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

/// Returns the items that are added beside a function, as tokens with spaces between them.
fn written(attribute: &str, function: &str) -> String {
    let mut function: ItemFn = syn::parse_str(function).unwrap();
    offered(Library::Sdk, tokens(attribute), &mut function).unwrap().to_string()
}

fn errors(attribute: &str, function: &str) -> Vec<String> {
    let mut function: ItemFn = syn::parse_str(function).unwrap();
    let error = offered(Library::Sdk, tokens(attribute), &mut function).unwrap_err();
    error.into_iter().map(|error| error.to_string()).collect()
}

/// Checks that a function violates `rule` and no other.
fn assert_breaks(rule: Rule, function: &str) {
    assert_eq!(errors("", function), [rule.to_string()], "{function}");
}

#[test]
fn parameters_that_no_client_can_send_are_refused() {
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
        (Rule::SelfParameter, "&self"),
        (Rule::SelfParameter, "self: Arc<Self>, a: f64"),
        (Rule::UnknownMark, "#[tool(inputs)] a: A"),
        (Rule::UnknownMark, "#[tool] a: A"),
    ] {
        assert_breaks(rule, &format!("fn f({parameter}) {{}}"));
    }
}

#[test]
fn what_a_function_is_told_is_taken_in_one_way() {
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

/// An input type of the author may have these names too, because the attribute marks it.
#[test]
fn an_input_may_have_any_name() {
    let written = written("", "fn f(#[tool(input)] context: Context, call: &Call<'_>) {}");
    assert!(written.contains("__input : Context") && written.contains("f (__input , __context)"), "{written}");
}

#[test]
fn functions_that_no_client_can_call_are_refused() {
    assert_breaks(Rule::Generic, "fn f<T: Sum>(a: T) {}");
    assert_breaks(Rule::Generic, "fn f<'a>(a: String) -> Cow<'a, str> {}");
    assert_breaks(Rule::Unsafe, "unsafe fn f() {}");
}

#[test]
fn arguments_of_the_attribute_are_those_there_are() {
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
        assert!(written(attribute, "fn f() {}").contains("Offer for f"), "{attribute}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let errors = errors("titel", "fn f<T>(&self, (a, b): (T, T), context: Context) {}");
    let rules = [
        Rule::UnknownArgument,
        Rule::Generic,
        Rule::SelfParameter,
        Rule::NoPattern,
        Rule::ContextWithoutAsync,
    ];
    assert_eq!(errors, rules.map(|rule| rule.to_string()));
}

#[test]
fn an_error_says_what_would_be_right() {
    let error = Rule::CallByValue.at(tokens("call: Call")).to_string();
    assert_eq!(error, "a tool takes `Call` by reference\n\nhint: write `&Call<'_>`");
}

#[test]
fn what_is_no_function_stays_as_it_is() {
    let written = tool(Library::Sdk, TokenStream::new(), &tokens("struct Add { a: f64 }")).to_string();
    assert!(written.contains("compile_error") && written.contains("is only for functions"), "{written}");
    assert!(written.ends_with(&tokens("struct Add { a: f64 }").to_string()), "{written}");
}

/// Only the error of the tool is reported: callers of the function still find it.
#[test]
fn a_function_is_there_even_if_it_is_no_tool() {
    let item =
        tokens("/** Adds. */ fn add(#[serde(default)] a: f64, #[allow(unused)] (b, c): (f64, f64)) {}");
    let written = tool(Library::Sdk, TokenStream::new(), &item).to_string();
    let function = tokens("/** Adds. */ fn add(a: f64, #[allow(unused)] (b, c): (f64, f64)) {}").to_string();
    assert!(written.starts_with(&function) && written.contains("compile_error"), "{written}");
}

#[test]
fn attributes_of_parameters_become_those_of_members() {
    let function = "fn f(/** One. */ #[serde(default)] a: f64, #[allow(unused)] mut b: &str) {}";
    let written = written("", function);
    let expected = tokens(
        "struct __Arguments { #[doc = \" One. \"] #[serde(default)] a: f64, b: ::std::string::String, }",
    );
    assert!(written.contains(&expected.to_string()), "{written}");
}

/// Users of the attribute need no dependency besides the SDK.
#[test]
fn serde_and_schemars_are_those_of_the_sdk() {
    let written = written("", "fn f(a: f64) {}");
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
fn conditions_of_the_function_are_those_of_the_tool() {
    let written = written("", "#[cfg(unix)] #[must_use] pub fn f() -> String {}");
    assert_eq!(written.matches("# [cfg (unix)]").count(), 2, "{written}");
    assert!(written.contains("pub struct f { }") && !written.contains("must_use"), "{written}");
}

#[test]
fn a_macro_may_have_put_groups_around_types() {
    let group =
        |text: &str| proc_macro2::Group::new(proc_macro2::Delimiter::None, tokens(text)).into_token_stream();
    let (call, text) = (group("&Call<'_>"), group("&str"));
    let mut function: ItemFn = syn::parse_quote!(fn f(a: #text, call: #call) {});
    let written = offered(Library::Sdk, TokenStream::new(), &mut function).unwrap().to_string();
    assert!(
        written.contains("a : :: std :: string :: String") && written.contains("f (& __input . a , __context)"),
        "{written}"
    );
}
