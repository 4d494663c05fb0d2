//! Full-text search in a list of tools, with the ranking function BM25.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// An index of the words in the names and descriptions of tools. The position of a tool in the list
/// identifies the tool.
#[derive(Debug)]
pub struct SearchIndex {
    /// The length of each text, in weighted words.
    lengths: Box<[f64]>,
    mean_length: f64,
    /// The texts that contain each word.
    postings: BTreeMap<Box<str>, Vec<Posting>>,
}

/// A text that contains a word.
#[derive(Debug)]
struct Posting {
    text: usize,
    /// The number of occurrences. An occurrence in the name counts more.
    weight: f64,
}

/// The texts of a tool.
#[derive(Clone, Copy, Debug)]
pub struct SearchText<'t> {
    /// The name. Its words are separated by `_`, `-` and other punctuation, or by case as in `readFile`.
    pub name: &'t str,
    /// The description, or an empty text.
    pub description: &'t str,
}

impl SearchIndex {
    /// Creates the index of a list of tools.
    pub fn new<'t>(tools: impl IntoIterator<Item = SearchText<'t>>) -> Self {
        let (mut lengths, mut postings) = (Vec::new(), BTreeMap::<Box<str>, Vec<Posting>>::new());
        for (text, tool) in tools.into_iter().enumerate() {
            let weights = weights(&tool);
            lengths.push(weights.values().sum());
            for (word, weight) in weights {
                postings.entry(word.into()).or_default().push(Posting { text, weight });
            }
        }
        let mean_length = lengths.iter().sum::<f64>() / float(lengths.len().max(1));
        Self { lengths: lengths.into(), mean_length, postings }
    }

    /// Returns the positions of at most `results_max` tools that contain at least one word of `query`, best
    /// match first. Tools with the same score keep their order. Ignores all words of the query after the
    /// first 32.
    pub fn search(&self, query: &str, results_max: usize) -> Vec<usize> {
        let mut words: Vec<String> = Vec::new();
        for_each_word(query, |word| {
            if words.len() < QUERY_WORDS_MAX && !words.contains(&word) {
                words.push(word);
            }
        });
        let mut scores = vec![0.0; self.lengths.len()];
        for postings in words.iter().filter_map(|word| self.postings.get(word.as_str())) {
            let rarity = self.rarity(postings.len());
            for posting in postings {
                scores[posting.text] += rarity * self.saturated(posting);
            }
        }
        let mut found: Vec<usize> = (0..scores.len()).filter(|text| scores[*text] > 0.0).collect();
        found.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        found.truncate(results_max);
        found
    }

    /// Returns the weight of a word that `count` texts contain (inverse document frequency).
    fn rarity(&self, count: usize) -> f64 {
        let (all, count) = (float(self.lengths.len()), float(count));
        natural_logarithm(1.0 + (all - count + 0.5) / (count + 0.5))
    }

    /// Returns the score of a word in a text: grows with the weight up to a limit, and is lower in long texts.
    fn saturated(&self, posting: &Posting) -> f64 {
        let length = self.lengths[posting.text] / self.mean_length;
        let slowness = SATURATION * (1.0 - LENGTH_EFFECT + LENGTH_EFFECT * length);
        posting.weight * (SATURATION + 1.0) / (posting.weight + slowness)
    }
}

/// Returns the weight of each word of a tool.
fn weights(tool: &SearchText<'_>) -> BTreeMap<String, f64> {
    let mut weights = BTreeMap::new();
    for (text, weight) in [(tool.name, NAME_WEIGHT), (tool.description, 1.0)] {
        for_each_word(text, |word| *weights.entry(word).or_insert(0.0) += weight);
    }
    weights
}

/// Calls `visit` with each word of `text`, in lowercase and without the ending of a plural.
fn for_each_word(text: &str, mut visit: impl FnMut(String)) {
    let (mut word, mut previous) = (String::new(), ' ');
    let mut end_word = |word: &mut String| {
        if !word.is_empty() {
            visit(singular(core::mem::take(word)));
        }
    };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_first = c.is_uppercase() && !previous.is_uppercase()
            || previous.is_uppercase() && c.is_uppercase() && rest.peek().is_some_and(|c| c.is_lowercase());
        if is_first || is_word(c) || is_word(previous) || !c.is_alphanumeric() {
            end_word(&mut word);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        previous = c;
    }
    end_word(&mut word);
}

/// `true` if the character is a word, as in Chinese and Japanese texts, which have no spaces between words.
const fn is_word(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// Removes the ending of an English plural, so that `issues` finds `issue`. The result need not be a word,
/// because texts and queries get the same result.
fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
        if word.ends_with("ie") {
            word.truncate(word.len() - 2);
            word.push('y');
        }
    }
    word
}

/// Returns the natural logarithm of a number that is at least 1. This crate cannot use the standard library.
fn natural_logarithm(number: f64) -> f64 {
    let (mut mantissa, mut exponent) = (number, 0.0);
    while mantissa >= 2.0 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln(m) = 2 (r + r³/3 + r⁵/5 + …), and r ≤ 1/3.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (ratio, 0.0);
    for term in 0..16_u8 {
        sum += power / f64::from(2 * term + 1);
        power *= ratio * ratio;
    }
    exponent * core::f64::consts::LN_2 + 2.0 * sum
}

#[expect(clippy::cast_precision_loss, reason = "a list has far fewer than 2^52 tools")]
const fn float(count: usize) -> f64 {
    count as f64
}

/// Maximum number of different words of a query that the search uses.
const QUERY_WORDS_MAX: usize = 32;

/// Number of words in a description that have the weight of one word in the name.
const NAME_WEIGHT: f64 = 3.0;

/// The parameter k1 of BM25: a higher value gives more weight to repeated words.
const SATURATION: f64 = 1.2;

/// The parameter b of BM25: the effect of the length of a text, from 0 to 1.
const LENGTH_EFFECT: f64 = 0.75;

#[cfg(test)]
mod tests;
