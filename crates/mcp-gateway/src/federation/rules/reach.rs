//! The members that a caller can use.

use thruway_mcp::federated::ListKind;

use super::Access;

impl Access<'_> {
    /// Returns `true` if the rules of the caller can permit an item whose public name or URI begins with
    /// `prefix`.
    pub(in crate::federation) fn allows_some(&self, kind: ListKind, prefix: &str) -> bool {
        let rules = self.rules.rules.iter().enumerate();
        let mut matching = rules.filter(|(index, _)| self.matching.contains(*index));
        matching.any(|(_, rule)| rule.globs(kind).iter().any(|glob| glob.can_match_after(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use thruway_mcp_server::backend::Caller;

    use super::*;
    use crate::federation::rules::{AccessRules, Rule};

    #[test]
    fn rule_reaches_only_members_that_its_patterns_can_match() {
        let rule = Rule {
            tools: vec!["a__*".into(), "bc*".into(), "d__x".into(), "e__".into()],
            resources: vec!["file:*".into()],
            ..Rule::default()
        };
        let rules = AccessRules::compile(&[rule]).unwrap().unwrap();
        let access = rules.access_of(&Caller::Local);
        for (prefix, is_reached) in
            [("a__", true), ("ab__", false), ("b__", false), ("bcd__", true), ("d__", true), ("e__", false)]
        {
            assert_eq!(access.allows_some(ListKind::Tools, prefix), is_reached, "{prefix}");
        }
        assert!(access.allows_some(ListKind::Resources, ""));
        assert!(!access.allows_some(ListKind::Prompts, ""));
    }
}
