//! The tokens of a Rust file, with their lines. Comments are left out, and code for tests is marked.

use anyhow::anyhow;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens of a file.
pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    pub(super) line_count: usize,
}

/// A word, a punctuation character, a literal, or one end of a group in brackets.
pub(super) struct Token {
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) is_word: bool,
    pub(super) is_test: bool,
}

impl Source {
    /// Reads the text of a file that is `is_test` as a whole.
    pub(super) fn read(text: &str, is_test: bool) -> anyhow::Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("is not Rust: {error}"))?;
        let mut tokens = Vec::new();
        flatten(stream, is_test, &mut tokens);
        Ok(Self { tokens, line_count: text.lines().count() })
    }

    /// Returns `true` if the tokens from `start` on match `pattern`.
    pub(super) fn is_at(&self, start: usize, pattern: &[&str]) -> bool {
        let tokens = self.tokens.get(start..).unwrap_or_default();
        tokens.len() >= pattern.len()
            && pattern.iter().zip(tokens).all(|(text, token)| *text == ANY || token.text == *text)
    }

    /// The first and last line of each part that is compiled for tests only.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = (usize, usize)> {
        self.tokens
            .chunk_by(|one, other| one.is_test == other.is_test)
            .filter(|tokens| tokens[0].is_test)
            .filter_map(|tokens| Some((tokens.first()?.line, tokens.last()?.line)))
    }

    /// The tokens between the bracket at `open` and the one that closes it.
    pub(super) fn group(&self, open: usize) -> &[Token] {
        let mut depth = 0_usize;
        for (length, token) in self.tokens[open..].iter().enumerate() {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return &self.tokens[open + 1..(open + length).max(open + 1)];
            }
        }
        &[]
    }
}

/// Stands for any token in a pattern.
pub(super) const ANY: &str = "";

fn flatten(stream: TokenStream, is_test: bool, tokens: &mut Vec<Token>) {
    // From `#[cfg(test)]` to the end of the item.
    let mut is_test_item = false;
    let mut is_attribute = false;
    for tree in stream {
        let is_marked = is_test || is_test_item;
        let line = tree.span().start().line;
        let mut push =
            |text: String, line, is_word| tokens.push(Token { text, line, is_word, is_test: is_marked });
        match tree {
            TokenTree::Group(group) => {
                let [open, close] = brackets(&group);
                push(open.to_owned(), line, false);
                let end = group.span_close().end().line;
                flatten(group.stream(), is_marked, tokens);
                tokens.push(Token { text: close.to_owned(), line: end, is_word: false, is_test: is_marked });
                if is_attribute {
                    is_test_item |= is_cfg_test(group.stream());
                } else if group.delimiter() == Delimiter::Brace {
                    is_test_item = false;
                }
                is_attribute = false;
            }
            TokenTree::Punct(punctuation) => {
                let character = punctuation.as_char();
                push(character.to_string(), line, false);
                is_attribute = character == '#' || is_attribute && character == '!';
                is_test_item &= character != ';';
            }
            TokenTree::Ident(word) => push(word.to_string(), line, true),
            TokenTree::Literal(literal) => push(literal.to_string(), line, false),
        }
    }
}

fn brackets(group: &Group) -> [&'static str; 2] {
    match group.delimiter() {
        Delimiter::Parenthesis => ["(", ")"],
        Delimiter::Bracket => ["[", "]"],
        Delimiter::Brace => ["{", "}"],
        Delimiter::None => ["", ""],
    }
}

/// Returns `true` if the inside of an attribute is `cfg(test)`, or `cfg(all(test, …))`.
fn is_cfg_test(stream: TokenStream) -> bool {
    let mut tokens = Vec::new();
    flatten(stream, false, &mut tokens);
    let has = |word: &str| tokens.iter().any(|token| token.text == word);
    tokens.first().is_some_and(|token| token.text == "cfg") && has("test") && !has("not") && !has("any")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_for_tests_only_is_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n";
        let source = Source::read(text, false).unwrap();
        let is_test = |word: &str| source.tokens.iter().find(|token| token.text == word).unwrap().is_test;
        assert_eq!(["a", "b", "c", "d"].map(is_test), [false, true, false, false]);
        assert_eq!(source.test_lines().collect::<Vec<_>>(), [(3, 5)]);
    }

    #[test]
    fn words_in_comments_and_literals_are_no_words() {
        let source = Source::read("// payload\nconst A: &str = \"payload\"; /* payload */", false).unwrap();
        assert!(source.tokens.iter().all(|token| !token.is_word || token.text != "payload"));
    }

    #[test]
    fn a_group_ends_at_its_own_bracket() {
        let source = Source::read("a(b, (c), d) e", false).unwrap();
        let words: Vec<_> =
            source.group(1).iter().filter(|token| token.is_word).map(|token| token.text.as_str()).collect();
        assert_eq!(words, ["b", "c", "d"]);
    }
}
