//! The errors for invalid `impl` blocks and methods, and the code that stays in the block.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemImpl;

use super::{offer, offered};
use crate::definition::Library;
use crate::expand::expand;
use crate::item::Item;
use crate::rule::Rule;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

/// Returns the block, and the items that the attribute adds beside it, as tokens with spaces between them.
fn expanded(block: &str) -> (String, String) {
    let mut block: ItemImpl = syn::parse_str(block).unwrap();
    let added = offered(Library::Sdk, TokenStream::new(), &mut block).unwrap().to_string();
    (block.to_token_stream().to_string(), added)
}

fn errors(attribute: &str, block: &str) -> Vec<String> {
    let mut block: ItemImpl = syn::parse_str(block).unwrap();
    let error = offered(Library::Sdk, tokens(attribute), &mut block).unwrap_err();
    error.into_iter().map(|error| error.to_string()).collect()
}

#[test]
fn methods_must_follow_the_rules() {
    for (rule, method) in [
        (Rule::AsyncWithCall, "#[tool] async fn f(&self, call: &Call<'_>) {}"),
        (Rule::Duplicate, "#[tool] #[tool(read_only)] fn f(&self) {}"),
        (Rule::Duplicate, "#[tool] #[prompt] fn f(&self) {}"),
        (Rule::Duplicate, "#[tool(name = \"a\", name = \"b\")] fn f(&self) {}"),
        (Rule::Generic, "#[tool] fn f<T: Sum>(&self, a: T) {}"),
        (Rule::Generic, "#[tool] fn f<'a>(&'a self) -> &'a str {}"),
        (Rule::MutableSelf, "#[tool] fn f(&mut self) {}"),
        (Rule::MutableSelf, "#[tool] async fn f(&mut self, a: f64) {}"),
        (Rule::MutableSelf, "#[prompt] fn f(&mut self) {}"),
        (Rule::NoItem, "fn f(&self) {}"),
        (Rule::NoItem, "const TOOL: bool = true;"),
        (Rule::NotLast, "#[tool] async fn f(&self, context: Context, a: f64) {}"),
        (Rule::NoUri, "#[resource] fn f(&self) {}"),
        (Rule::NoVariable, "#[resource(\"a://{b}\")] fn f(&self, b: u8, c: u8) {}"),
        (Rule::OwnedSelf, "#[tool] fn f(self) {}"),
        (Rule::OwnedSelf, "#[tool] fn f(mut self) {}"),
        (Rule::OwnedSelf, "#[tool] fn f(self: Arc<Self>) {}"),
        (Rule::UnknownArgument, "#[tool(readonly)] fn f(&self) {}"),
        (Rule::UnknownArgument, "#[sdk::tool(readonly)] fn f() {}"),
        (Rule::Unsafe, "#[tool] unsafe fn f(&self) {}"),
    ] {
        assert_eq!(errors("", &format!("impl A {{ {method} }}")), [rule.to_string()], "{method}");
    }
    let errors = errors("", "impl A { #[tool = \"add\"] fn f(&self) {} }");
    assert!(matches!(&errors[..], [error] if error.contains("expected `(`")), "{errors:?}");
}

#[test]
fn blocks_must_follow_the_rules() {
    for (rule, attribute, header) in [
        (Rule::BorrowedState, "", "impl<'a> A<'a>"),
        (Rule::BorrowedState, "", "impl A<'_>"),
        (Rule::BorrowedState, "", "impl A<&'_ str>"),
        (Rule::OfferArgument, "name = \"a\"", "impl A"),
        (Rule::TraitImpl, "", "impl Tools for A"),
    ] {
        let block = format!("{header} {{ #[tool] fn f(&self) {{}} }}");
        assert_eq!(errors(attribute, &block), [rule.to_string()], "{header}");
    }
    assert!(expanded("impl A<&'static str> { #[tool] fn f(&self) {} }").1.contains("Offer for A"));
}

#[test]
fn errors_of_all_methods_are_reported_together() {
    let block = "impl A { #[tool(titel)] fn f(&mut self) {} #[tool] fn g(self) {} #[tool] fn h(&self) {} }";
    let rules = [Rule::UnknownArgument, Rule::MutableSelf, Rule::OwnedSelf];
    assert_eq!(errors("", block), rules.map(|rule| rule.to_string()));
}

/// Without the block, each call of its methods would cause a further error.
#[test]
fn invalid_block_is_kept_beside_compile_error() {
    let block = tokens("impl A { #[tool] fn f(&mut self, #[serde(default)] a: f64) {} fn g(&self) {} }");
    let written = offer(Library::Sdk, TokenStream::new(), &block).to_string();
    let kept = tokens("impl A { #[tool(__read)] fn f(&mut self, a: f64) {} fn g(&self) {} }").to_string();
    assert!(written.starts_with(&kept) && written.contains("compile_error"), "{written}");

    let written = offer(Library::Sdk, TokenStream::new(), &tokens("struct A;")).to_string();
    assert!(written.contains("compile_error") && written.contains("is only for `impl` blocks"), "{written}");
    assert!(written.ends_with("struct A ;"), "{written}");
}

/// The compiler then reports a missing import of `tool`, and no unused one.
#[test]
fn attribute_of_method_stays_and_does_nothing() {
    let (block, added) = expanded("impl A { /** Adds. */ #[sdk::tool(read_only)] pub fn f(&self) {} }");
    assert_eq!(block, tokens("impl A { /** Adds. */ #[sdk::tool(__read)] pub fn f(&self) {} }").to_string());
    assert!(added.contains("read_only_hint") && added.contains("\"Adds. \""), "{added}");
    let method = tokens("pub fn f(&self) {}");
    assert_eq!(expand(Library::Sdk, Item::Tool, tokens("__read"), &method).to_string(), method.to_string());
}

#[test]
fn cfg_attributes_are_copied_to_the_added_code() {
    let (_, added) = expanded("#[cfg(unix)] #[allow(x)] impl A { #[tool] #[cfg(test)] #[inline] fn f() {} }");
    assert!(added.starts_with("# [cfg (unix)] const _"), "{added}");
    assert!(added.contains("# [cfg (test)] let () ="), "{added}");
    assert!(!added.contains("inline") && !added.contains("allow (x)"), "{added}");
}

#[test]
fn generics_of_the_block_are_copied_to_the_implementations() {
    let (_, added) =
        expanded("impl<S: Store, const N: usize> A<S, N> where S: Clone { #[tool] fn f(&self) {} }");
    for part in ["Offer for A < S , N > where S : Clone", "SharedOffer for A < S , N > where S : Clone"] {
        assert!(added.contains(part), "{added}");
    }
    assert_eq!(added.matches("impl < S : Store , const N : usize >").count(), 2, "{added}");
}
