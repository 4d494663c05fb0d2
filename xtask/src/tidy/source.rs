//! The tokens of a Rust file with their line numbers, without comments. Test code is marked.

use anyhow::anyhow;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The tokens of a file.
pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    pub(super) line_count: usize,
}

/// A word, a literal, a bracket, `::`, `->`, or another punctuation character.
pub(super) struct Token {
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) is_word: bool,
    pub(super) is_test: bool,
}

impl Source {
    /// Reads the text of a file. `is_test` marks the whole file as test code.
    pub(super) fn read(text: &str, is_test: bool) -> anyhow::Result<Self> {
        let stream: TokenStream =
            text.parse().map_err(|error| anyhow!("cannot parse the file as Rust: {error}"))?;
        let mut tokens = Vec::new();
        flatten(stream, is_test, &mut tokens);
        Ok(Self { tokens, line_count: text.lines().count() })
    }

    /// Returns the text of a token, or an empty text if `at` is out of range.
    pub(super) fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// Returns `true` if the tokens that begin at `start` have these texts.
    pub(super) fn is_at(&self, start: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(place, text)| self.text(start.wrapping_add(place)) == *text)
    }

    /// Returns the tokens of an item from `start` up to its body or its semicolon.
    pub(super) fn signature(&self, start: usize) -> &[Token] {
        let mut depth = 0_usize;
        let is_end = |token: &Token| {
            match token.text.as_str() {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(token.text.as_str(), "{" | ";")
        };
        let length = self.tokens[start..].iter().position(is_end).unwrap_or_default();
        &self.tokens[start..start + length]
    }

    /// Returns `true` if the whole file is test code, or has no code.
    pub(super) fn is_test(&self) -> bool {
        self.tokens.first().is_none_or(|token| token.is_test)
    }

    /// Returns the first and last line of each part of test code.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = (usize, usize)> {
        let parts = self.tokens.chunk_by(|one, other| one.is_test == other.is_test);
        let tests = parts.filter(|tokens| tokens[0].is_test);
        tests.filter_map(|tokens| Some((tokens.first()?.line, tokens.last()?.line)))
    }
}

fn flatten(stream: TokenStream, is_test: bool, tokens: &mut Vec<Token>) {
    // The value is `true` from `#[cfg(test)]` to the end of the item.
    let mut is_test_item = false;
    let mut is_attribute = false;
    for tree in stream {
        let is_test = is_test || is_test_item;
        let line = tree.span().start().line;
        let token = |text: String, line, is_word| Token { text, line, is_word, is_test };
        match tree {
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Delimiter::Parenthesis => ["(", ")"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::None => ["", ""],
                };
                tokens.push(token(open.to_owned(), line, false));
                flatten(group.stream(), is_test, tokens);
                tokens.push(token(close.to_owned(), group.span_close().end().line, false));
                if is_attribute {
                    is_test_item |= is_cfg_test(&group.stream());
                } else if group.delimiter() == Delimiter::Brace {
                    is_test_item = false;
                }
                is_attribute = false;
            }
            TokenTree::Punct(punctuation) => {
                let character = punctuation.as_char();
                match tokens.last_mut() {
                    Some(last) if matches!((&*last.text, character), (":", ':') | ("-", '>')) => {
                        last.text.push(character);
                    }
                    _ => tokens.push(token(character.to_string(), line, false)),
                }
                is_attribute = character == '#' || is_attribute && character == '!';
                is_test_item &= character != ';';
            }
            TokenTree::Ident(word) => tokens.push(token(word.to_string(), line, true)),
            TokenTree::Literal(literal) => tokens.push(token(literal.to_string(), line, false)),
        }
    }
}

/// Returns `true` if the text in an attribute is `cfg(test)`, or `cfg(all(test, …))`.
fn is_cfg_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string();
    let has = |word| text.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
    text.starts_with("cfg") && has("test") && !has("cfg_attr") && !has("not") && !has("any")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_tests_is_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n";
        let source = Source::read(text, false).unwrap();
        let is_test = |word: &str| source.tokens.iter().find(|token| token.text == word).unwrap().is_test;
        assert_eq!(["a", "b", "c", "d"].map(is_test), [false, true, false, false]);
        assert_eq!(source.test_lines().collect::<Vec<_>>(), [(3, 5)]);
    }
}
