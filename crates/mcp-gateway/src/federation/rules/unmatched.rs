//! Patterns of access rules that match no item. Such a pattern may contain a spelling mistake.

use thruway_mcp::federated::{Glob, ListKind};

use super::AccessRules;

/// A pattern of an access rule that matches no item of the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnmatchedPattern {
    /// The number of the rule, counted from 0.
    pub rule: usize,
    /// The plural of the kind of items: `tools`, `resources` or `prompts`.
    pub kind: &'static str,
    /// The pattern.
    pub pattern: String,
}

impl AccessRules {
    /// Returns the patterns for items of `kind` that match none of `keys`. If `kind` is `Resources`, `keys`
    /// contains the URIs of resources and the URI templates.
    pub(in crate::federation) fn unmatched(&self, kind: ListKind, keys: &[String]) -> Vec<UnmatchedPattern> {
        let is_used = |glob: &Glob| {
            keys.iter().any(|key| glob.matches(key) || !kind.has_names() && may_produce(key, glob.as_str()))
        };
        let rules = self.rules.iter().enumerate();
        let patterns =
            rules.flat_map(|(rule, compiled)| compiled.globs(kind).iter().map(move |glob| (rule, glob)));
        let unmatched = patterns.filter(|(_, glob)| !is_used(glob)).map(|(rule, glob)| UnmatchedPattern {
            rule,
            kind: plural(kind),
            pattern: glob.as_str().to_owned(),
        });
        unmatched.collect()
    }
}

/// Returns `true` if the URI template `template` may produce a URI that `glob` matches: the literal text before
/// the first expression and the literal text before the first `*` do not differ.
fn may_produce(template: &str, glob: &str) -> bool {
    let Some((literal, _)) = template.split_once('{') else { return false };
    let start = glob.split('*').next().unwrap_or_default();
    literal.starts_with(start) || start.starts_with(literal)
}

const fn plural(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Resources | ListKind::ResourceTemplates => "resources",
        ListKind::Prompts => "prompts",
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn unmatched_patterns_are_found_for_each_rule() {
        let first = Rule { tools: texts(&["a__*", "b__*"]), ..Rule::default() };
        let second = Rule { tools: texts(&["*__read"]), prompts: texts(&["x"]), ..Rule::default() };
        let rules = AccessRules::compile(&[first, second]).unwrap().unwrap();
        let unmatched = rules.unmatched(ListKind::Tools, &texts(&["a__write"]));
        let found: Vec<_> = unmatched.iter().map(|one| (one.rule, one.pattern.as_str())).collect();
        assert_eq!(found, [(0, "b__*"), (1, "*__read")]);
        assert_eq!(rules.unmatched(ListKind::Prompts, &[]).len(), 1);
        assert_eq!(rules.unmatched(ListKind::Prompts, &texts(&["x"])), []);
    }

    #[test]
    fn resource_pattern_can_match_uris_of_a_template() {
        let is_unmatched = |pattern: &str, key: &str| {
            let rule = Rule { resources: texts(&[pattern]), ..Rule::default() };
            let rules = AccessRules::compile(&[rule]).unwrap().unwrap();
            !rules.unmatched(ListKind::Resources, &texts(&[key])).is_empty()
        };
        assert!(!is_unmatched("docs://public/a/*", "docs://{+path}"));
        assert!(!is_unmatched("docs://*", "docs://public/{+path}"));
        assert!(is_unmatched("docs://secret/*", "docs://public/{+path}"));
        assert!(is_unmatched("docs://public/x", "docs://public/y"));
    }
}
