//! The texts that were filled in from the environment, and their places in the file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Texts that were filled in, with the places where they stand.
#[derive(Default)]
pub(super) struct Filled(pub(super) Vec<(Range<usize>, String)>);

impl Filled {
    /// Whether a text was filled in at `place`.
    pub(super) fn is_at(&self, place: &Range<usize>) -> bool {
        self.text_at(place).is_some()
    }

    /// Has the number or truth value that was filled in at `place` of `table` stand there, instead of a text. Whether there was one that
    /// was a text so far.
    pub(super) fn retype<'f>(&'f self, table: &mut DeTable<'f>, place: &Range<usize>) -> bool {
        let parsed = self.text_at(place).and_then(|text| DeValue::parse(text.trim()).ok());
        let Some(value) = parsed.map(Spanned::into_inner) else { return false };
        let is_meant = value.is_integer() || value.is_float() || value.is_bool();
        is_meant && table.iter_mut().any(|(_, at)| replace_text(at, place, &value))
    }

    /// Returns each text that was filled in, with its place.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.0.iter().map(|(at, text)| (at, text.as_str()))
    }

    fn text_at(&self, place: &Range<usize>) -> Option<&str> {
        self.0.iter().find(|(at, _)| at == place).map(|(_, text)| text.as_str())
    }
}

/// Has `value` stand in the place of the text at `place`, if that is in `at`.
fn replace_text<'f>(at: &mut Spanned<DeValue<'f>>, place: &Range<usize>, value: &DeValue<'f>) -> bool {
    let is_there = at.span() == *place;
    match at.get_mut() {
        text @ DeValue::String(_) if is_there => {
            *text = value.clone();
            true
        }
        DeValue::Array(values) => values.iter_mut().any(|at| replace_text(at, place, value)),
        DeValue::Table(table) => table.iter_mut().any(|(_, at)| replace_text(at, place, value)),
        _ => false,
    }
}
