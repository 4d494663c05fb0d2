//! Expands `#[derive(ElicitForm)]`: a struct becomes a form, and an enum becomes a choice in forms.

use proc_macro2::{TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, FieldsNamed, Meta};

use crate::definition::Library;
use crate::rule::{Broken, Rule};

/// Expands the derive macro. The compiler reports each error at the code that caused it.
pub(crate) fn derive(library: Library, code: TokenStream) -> TokenStream {
    let form = syn::parse2(code).and_then(|input| implementations(library, &input));
    form.unwrap_or_else(syn::Error::into_compile_error)
}

/// Returns the implementations for the type.
fn implementations(library: Library, input: &DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    if !input.generics.params.is_empty() {
        return Err(Rule::GenericForm.at(&input.generics));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => form(library, input, fields),
            _ => Err(Rule::NoForm.at(name)),
        },
        Data::Enum(data) => {
            let mut broken = Broken::default();
            broken.note(check(&input.attrs, &["tag", "content", "untagged"], Rule::ChoiceWithData));
            for variant in &data.variants {
                if !matches!(variant.fields, Fields::Unit) {
                    broken.note::<()>(Err(Rule::ChoiceWithData.at(variant)));
                }
            }
            broken.or_else(|| {
                quote! {
                    impl #library::FormField for #name {}
                    impl #library::FormChoice for #name {}
                }
            })
        }
        Data::Union(_) => Err(Rule::NoForm.at(name)),
    }
}

/// Returns the implementation for a struct. The compiler checks that each field can be a field of a form.
fn form(library: Library, input: &DeriveInput, fields: &FieldsNamed) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let mut broken = Broken::default();
    broken.note(check(&input.attrs, &["tag", "transparent"], Rule::NoForm));
    for field in &fields.named {
        broken.note(check(&field.attrs, &["flatten"], Rule::FlatForm));
    }
    let checks = fields.named.iter().map(|field| {
        let kind = &field.ty;
        quote_spanned!(kind.span()=> const _: () = __field::<#kind>();)
    });
    broken.or_else(|| {
        quote! {
            const _: () = {
                const fn __field<T: #library::FormField>() {}
                #(#checks)*
                impl #library::ElicitForm for #name {}
            };
        }
    })
}

/// Checks that the attributes for serde contain none of `words`.
fn check(attributes: &[Attribute], words: &[&str], rule: Rule) -> syn::Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let Meta::List(list) = &attribute.meta else { continue };
        let is_in_words = |token: TokenTree| match token {
            TokenTree::Ident(word) => words.iter().any(|name| word == name),
            _ => false,
        };
        if list.tokens.clone().into_iter().any(is_in_words) {
            return Err(rule.at(attribute));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(code: &str) -> Result<String, Vec<String>> {
        let input: DeriveInput = syn::parse_str(code).unwrap();
        implementations(Library::Sdk, &input)
            .map(|code| code.to_string())
            .map_err(|errors| errors.into_iter().map(|error| error.to_string()).collect())
    }

    #[test]
    fn types_that_are_no_forms_are_errors() {
        for (rule, code) in [
            (Rule::NoForm, "struct A(String);"),
            (Rule::NoForm, "struct A;"),
            (Rule::NoForm, "union A { a: u8 }"),
            (Rule::NoForm, "#[serde(transparent)] struct A { a: u8 }"),
            (Rule::NoForm, "#[serde(tag = \"kind\")] struct A { a: u8 }"),
            (Rule::GenericForm, "struct A<T> { a: T }"),
            (Rule::GenericForm, "enum A<'a> { A }"),
            (Rule::FlatForm, "struct A { #[serde(flatten)] a: B }"),
            (Rule::ChoiceWithData, "enum A { A, B(u8) }"),
            (Rule::ChoiceWithData, "enum A { A { a: u8 } }"),
            (Rule::ChoiceWithData, "#[serde(rename_all = \"lowercase\", untagged)] enum A { A }"),
        ] {
            assert_eq!(expanded(code), Err(vec![rule.to_string()]), "{code}");
        }
        let both = expanded("struct A { #[serde(flatten)] a: B, #[serde(default, flatten)] b: C }");
        assert_eq!(both.unwrap_err().len(), 2);
    }

    #[test]
    fn fields_of_a_form_are_checked() {
        let code = "struct Booking { #[serde(rename = \"flatten\")] city: String, nights: Option<u8> }";
        let written = expanded(code).unwrap();
        for kind in ["String", "Option < u8 >"] {
            assert!(written.contains(&format!("__field :: < {kind} > ()")), "{written}");
        }
        assert!(written.contains("impl :: thruway_mcp_sdk :: ElicitForm for Booking { }"), "{written}");
        let written = expanded("#[serde(rename_all = \"lowercase\")] enum Size { Small, Large }").unwrap();
        assert!(written.contains("FormChoice for Size { }") && !written.contains("ElicitForm"), "{written}");
    }
}
