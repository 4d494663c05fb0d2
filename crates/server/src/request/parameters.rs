//! Route parameters: parts of the path that match a `{name}` of the route.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters of a matched route.
#[derive(Clone, Debug, Default)]
pub struct Parameters<'a>(Source<'a>);

#[derive(Clone, Debug, Default)]
enum Source<'a> {
    #[default]
    None,
    Matched(matchit::Params<'a, 'a>),
    Kept(&'a [KeptParameter]),
}

/// A name and a percent-encoded value.
type KeptParameter = (Box<str>, Box<str>);

/// Route parameters that own their data.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedParameters(Vec<KeptParameter>);

impl<'a> Parameters<'a> {
    pub(crate) const fn none() -> Self {
        Self(Source::None)
    }

    pub(crate) const fn matched(params: matchit::Params<'a, 'a>) -> Self {
        Self(Source::Matched(params))
    }

    /// Returns the parameter `name` as the client has sent it, percent-encoded.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        match &self.0 {
            Source::None => None,
            Source::Matched(params) => params.get(name),
            Source::Kept(params) => params.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value),
        }
    }

    /// Returns the decoded parameter `name`. `None` if it is missing or not UTF-8.
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        percent_decode_str(self.raw(name)?).decode_utf8().ok()
    }

    /// Returns the names and the percent-encoded values of all parameters, in the order of the route.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (matched, kept) = match &self.0 {
            Source::None => (None, None),
            Source::Matched(params) => (Some(params.iter()), None),
            Source::Kept(params) => (None, Some(params.iter().map(|(name, value)| (&**name, &**value)))),
        };
        matched.into_iter().flatten().chain(kept.into_iter().flatten())
    }
}

impl OwnedParameters {
    pub(crate) fn as_parameters(&self) -> Parameters<'_> {
        Parameters(Source::Kept(&self.0))
    }
}

impl From<&Parameters<'_>> for OwnedParameters {
    fn from(parameters: &Parameters<'_>) -> Self {
        Self(parameters.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
