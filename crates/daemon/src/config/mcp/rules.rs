//! The tables `[[mcp.endpoints.NAME.rules]]`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_mcp_sdk::Rule;

use crate::config::mcp::patterns::{check_name_pattern, check_uri_pattern};
use crate::config::mcp::settings::PatternPlaces;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// An access rule. It permits tools, resources and prompts to the callers with certain claims. In a pattern, `*`
/// matches any text. Patterns apply to the names that clients use, such as `github__read_issue`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpRule {
    /// Claims that the caller must have, such as `{ groups = "eng" }` or `{ groups = ["eng", "ops"] }`. All of
    /// these claims are required. A claim matches if its value is one of the values here, or is a list with one
    /// of these values. The values of `scope` and `scp` can also be separated by spaces. The claims come from
    /// the `jwt` policy of the route. With `basic_auth` or `api_keys`, the claim `sub` is the name of the user.
    /// Default: none, so that the rule is for all callers.
    #[serde(default)]
    pub(in crate::config) claims: BTreeMap<String, Spanned<RawClaimValues>>,
    /// Patterns for the names of tools. Default: none.
    #[serde(default)]
    pub(in crate::config) tools: Vec<Spanned<String>>,
    /// Patterns for the URIs of resources, and for the URI templates of resource templates. A template does not
    /// permit its resources: a pattern must also match their URIs. Only the pattern `*` matches a URI with a
    /// path segment `..`. Default: none.
    #[serde(default)]
    pub(in crate::config) resources: Vec<Spanned<String>>,
    /// Patterns for the names of prompts. Default: none.
    #[serde(default)]
    pub(in crate::config) prompts: Vec<Spanned<String>>,
}

/// The accepted values of a claim: a string, or a list of strings.
pub(in crate::config) struct RawClaimValues(Vec<String>);

/// Returns the positions of the patterns of rules in the file.
pub(super) fn places_of_rules(rules: &[Spanned<RawMcpRule>]) -> Vec<PatternPlaces> {
    let places = |rule: &Spanned<RawMcpRule>| {
        let RawMcpRule { tools, resources, prompts, .. } = rule.get_ref();
        let patterns = tools.iter().chain(resources).chain(prompts);
        patterns.map(|text| (text.get_ref().clone(), text.span())).collect()
    };
    rules.iter().map(places).collect()
}

pub(super) fn resolve_rules(resolver: &mut Resolver<'_>, raw: Vec<Spanned<RawMcpRule>>) -> Vec<Rule> {
    raw.into_iter().map(|rule| resolve_rule(resolver, rule)).collect()
}

fn resolve_rule(resolver: &mut Resolver<'_>, raw: Spanned<RawMcpRule>) -> Rule {
    let span = raw.span();
    let RawMcpRule { claims, tools, resources, prompts } = raw.into_inner();
    if tools.is_empty() && resources.is_empty() && prompts.is_empty() {
        let failure = resolver.source.failure(span, "the rule permits nothing");
        resolver.failures.push(failure.with_hint("add `tools`, `resources` or `prompts`"));
    }
    for values in claims.values().filter(|values| values.get_ref().0.is_empty()) {
        resolver.refuse_with(values, "the list is empty, so the rule matches no caller", VALUES_HINT);
    }
    for (patterns, items) in [(&tools, "tools"), (&prompts, "prompts")] {
        for pattern in patterns {
            check_name_pattern(resolver, pattern, items);
        }
    }
    for pattern in &resources {
        check_uri_pattern(resolver, pattern);
    }
    let texts = |patterns: Vec<Spanned<String>>| patterns.into_iter().map(Spanned::into_inner).collect();
    Rule {
        claims: claims.into_iter().map(|(name, values)| (name, values.into_inner().0)).collect(),
        tools: texts(tools),
        resources: texts(resources),
        prompts: texts(prompts),
    }
}

impl<'de> Deserialize<'de> for RawClaimValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValuesVisitor;
        impl<'de> Visitor<'de> for ValuesVisitor {
            type Value = RawClaimValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<RawClaimValues, E> {
                Ok(RawClaimValues(vec![value.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawClaimValues, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(RawClaimValues(values))
            }
        }
        deserializer.deserialize_any(ValuesVisitor)
    }
}

impl JsonSchema for RawClaimValues {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ClaimValues".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

const VALUES_HINT: &str = "add a value, or remove the claim to permit all callers";
