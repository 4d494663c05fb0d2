//! Access rules: the tools, prompts and resources that a caller can see and use.

mod unmatched;

use std::collections::BTreeMap;
use std::fmt;

use thruway_mcp::federated::{Glob, InvalidGlob, ListKind};
use thruway_mcp::schema::JsonObject;
use thruway_mcp_server::backend::Caller;

pub use unmatched::UnmatchedPattern;

/// An access rule of an [`McpGateway`](crate::McpGateway). A gateway without rules permits everything. With
/// rules, a caller can see and use exactly the tools, prompts and resources that at least one matching rule
/// lists. For all others, the caller gets the same errors as for unknown names.
///
/// In a glob, `*` matches any characters, also none. All globs apply to the names that clients use, such as
/// `github__read_issue`.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use thruway_mcp_gateway::Rule;
///
/// let everyone = Rule { tools: vec!["docs__*".into()], ..Rule::default() };
/// let engineers = Rule {
///     claims: BTreeMap::from([("groups".into(), vec!["eng".into()])]),
///     tools: vec!["github__*".into()],
///     resources: vec!["repo://*".into()],
///     ..Rule::default()
/// };
/// let rules = vec![everyone, engineers]; // for `McpGatewayBuilder::rules`
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rule {
    /// Conditions on the claims of the caller's token: the name of a claim, and its accepted values. Every
    /// listed claim must be a string with an accepted value, or an array that contains such a string. The
    /// claims `scope` and `scp` can also be a string with several scopes, separated by spaces. Default: empty,
    /// so that the rule matches every caller. That includes callers without a token and callers over stdio.
    ///
    /// The gateway knows claims only if its endpoint verifies tokens (see
    /// [`McpEndpoint::authorize`](thruway_mcp_server::McpEndpoint::authorize)), or if a handler in front of the
    /// endpoint has verified the caller (see [`McpEndpoint`](thruway_mcp_server::McpEndpoint)).
    pub claims: BTreeMap<String, Vec<String>>,
    /// Globs for the names of tools.
    pub tools: Vec<String>,
    /// Globs for the URIs of resources, and for the URI templates of resource templates. A resource template
    /// does not permit its resources: a caller can read a URI only if a glob matches this URI. A URI with a
    /// path segment `..`, also if encoded, matches only the glob `*`.
    pub resources: Vec<String>,
    /// Globs for the names of prompts.
    pub prompts: Vec<String>,
}

/// The error for an invalid [`Rule`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRule {
    /// A glob is empty or too long.
    Glob(InvalidGlob),
    /// The rule accepts no value of this claim, so it matches no caller.
    NoValues(String),
    /// The rule lists no tools, resources and prompts, so it permits nothing.
    Empty,
}

/// The checked rules of a gateway.
#[derive(Debug)]
pub(super) struct AccessRules {
    rules: Box<[CompiledRule]>,
    /// `true` if at least one rule has conditions on claims.
    depend_on_claims: bool,
}

#[derive(Debug)]
struct CompiledRule {
    claims: BTreeMap<String, Vec<String>>,
    tools: Box<[Glob]>,
    resources: Box<[Glob]>,
    prompts: Box<[Glob]>,
}

/// A set of rules, as bits. Callers with the same set of matching rules have the same permissions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RuleSet(Box<[u64]>);

/// The permissions of one caller.
#[derive(Debug)]
pub(super) struct Access<'r> {
    rules: &'r AccessRules,
    matching: RuleSet,
}

impl AccessRules {
    /// Checks the rules. Returns `None` if there are none.
    ///
    /// # Errors
    /// Returns the number of the first invalid rule, counted from 1, and the reason.
    pub(super) fn compile(rules: &[Rule]) -> Result<Option<Self>, (usize, InvalidRule)> {
        let compiled = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| CompiledRule::compile(rule).map_err(|error| (index + 1, error)));
        let compiled: Box<[_]> = compiled.collect::<Result<_, _>>()?;
        let depend_on_claims = compiled.iter().any(|rule| !rule.claims.is_empty());
        Ok((!compiled.is_empty()).then_some(Self { rules: compiled, depend_on_claims }))
    }

    /// Returns the permissions of `caller`.
    pub(super) fn access_of(&self, caller: &Caller) -> Access<'_> {
        let claims = caller.claims();
        let mut bits = vec![0; self.rules.len().div_ceil(BITS)];
        for (index, _) in self.rules.iter().enumerate().filter(|(_, rule)| rule.matches(claims)) {
            bits[index / BITS] |= 1 << (index % BITS);
        }
        Access { rules: self, matching: RuleSet(bits.into()) }
    }
}

impl Access<'_> {
    /// Returns `true` if the caller can see and use the item. `key` is the public name, the URI or the URI
    /// template.
    pub(super) fn allows(&self, kind: ListKind, key: &str) -> bool {
        let is_plain = kind.has_names() || !has_parent_segment(key);
        let allows = |glob: &Glob| (is_plain || glob.as_str() == "*") && glob.matches(key);
        let rules = self.rules.rules.iter().enumerate();
        let mut matching = rules.filter(|(index, _)| self.matching.contains(*index));
        matching.any(|(_, rule)| rule.globs(kind).iter().any(allows))
    }

    /// Returns `true` if the rules of the caller can permit an item whose public name or URI begins with
    /// `prefix`.
    pub(super) fn allows_some(&self, kind: ListKind, prefix: &str) -> bool {
        let rules = self.rules.rules.iter().enumerate();
        let mut matching = rules.filter(|(index, _)| self.matching.contains(*index));
        matching.any(|(_, rule)| rule.globs(kind).iter().any(|glob| glob.can_match_after(prefix)))
    }

    /// Returns an identifier that all callers with the same permissions share.
    pub(super) const fn class(&self) -> &RuleSet {
        &self.matching
    }

    /// `true` if other callers may get other lists.
    pub(super) const fn is_private(&self) -> bool {
        self.rules.depend_on_claims
    }
}

impl RuleSet {
    fn contains(&self, index: usize) -> bool {
        self.0.get(index / BITS).is_some_and(|bits| bits >> (index % BITS) & 1 == 1)
    }
}

impl CompiledRule {
    fn compile(rule: &Rule) -> Result<Self, InvalidRule> {
        if let Some((claim, _)) = rule.claims.iter().find(|(_, values)| values.is_empty()) {
            return Err(InvalidRule::NoValues(claim.clone()));
        }
        if [&rule.tools, &rule.resources, &rule.prompts].iter().all(|globs| globs.is_empty()) {
            return Err(InvalidRule::Empty);
        }
        Ok(Self {
            claims: rule.claims.clone(),
            tools: globs(&rule.tools)?,
            resources: globs(&rule.resources)?,
            prompts: globs(&rule.prompts)?,
        })
    }

    fn matches(&self, claims: Option<&JsonObject>) -> bool {
        self.claims.iter().all(|(name, accepted)| {
            let value = claims.and_then(|claims| claims.get(name));
            let is_accepted = |text: &str| accepted.iter().any(|accepted| accepted == text);
            match value {
                Some(serde_json::Value::String(text)) if SCOPE_CLAIMS.contains(&name.as_str()) => {
                    text.split_ascii_whitespace().any(is_accepted)
                }
                Some(serde_json::Value::String(text)) => is_accepted(text),
                Some(serde_json::Value::Array(values)) => {
                    values.iter().filter_map(serde_json::Value::as_str).any(is_accepted)
                }
                _ => false,
            }
        })
    }

    const fn globs(&self, kind: ListKind) -> &[Glob] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Resources | ListKind::ResourceTemplates => &self.resources,
            ListKind::Prompts => &self.prompts,
        }
    }
}

fn globs(texts: &[String]) -> Result<Box<[Glob]>, InvalidRule> {
    texts.iter().map(|text| Glob::try_from(&**text).map_err(InvalidRule::Glob)).collect()
}

/// Returns `true` if a member may read a path segment `..` in `uri`. Such a URI can lead out of the directory
/// that a glob permits. Considers the differences between URI parsers: repeated percent encoding,
/// backslashes, ignored control characters, and path parameters.
fn has_parent_segment(uri: &str) -> bool {
    let mut decoded = uri.as_bytes().to_vec();
    for _ in 0..DECODED_MAX {
        decoded.retain(|byte| !byte.is_ascii_control());
        let mut segments = decoded.split(|byte| b"/\\;?#:".contains(byte));
        if segments.any(|segment| segment.trim_ascii() == b"..") {
            return true;
        }
        match percent_decoded(&decoded) {
            Some(more) => decoded = more,
            None => return false,
        }
    }
    true
}

/// Returns `None` if `text` has no percent-encoded byte.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        let byte = match (first, hex(after.first()), hex(after.get(1))) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    (decoded.len() < text.len()).then_some(decoded)
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(error) => error.fmt(f),
            Self::NoValues(claim) => {
                write!(f, "the claim `{claim}` has no values, so the rule matches no caller: add a value")
            }
            Self::Empty => f.write_str("the rule permits nothing: add `tools`, `resources` or `prompts`"),
        }
    }
}

impl std::error::Error for InvalidRule {}

/// Claims that can contain several values, separated by spaces.
const SCOPE_CLAIMS: [&str; 2] = ["scope", "scp"];

/// Number of bits in an element of a [`RuleSet`].
const BITS: usize = u64::BITS as usize;

/// Number of times that a URI may be percent-encoded. No permission covers a URI that is encoded more often.
const DECODED_MAX: usize = 4;

#[cfg(test)]
mod tests;
