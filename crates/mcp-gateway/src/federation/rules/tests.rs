use serde_json::json;

use super::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn rule(claims: &[(&str, &[&str])], tools: &[&str]) -> Rule {
    let claims = claims.iter().map(|(name, values)| ((*name).to_owned(), texts(values))).collect();
    Rule { claims, tools: texts(tools), ..Rule::default() }
}

fn matches(rule: &Rule, claims: &serde_json::Value) -> bool {
    CompiledRule::compile(rule).unwrap().matches(claims.as_object())
}

fn allows(rules: &[Rule], kind: ListKind, key: &str) -> bool {
    let rules = AccessRules::compile(rules).unwrap().unwrap();
    rules.access_of(&Caller::Local).allows(kind, key)
}

#[test]
fn all_conditions_of_a_rule_must_hold() {
    let rule = rule(&[("groups", &["eng", "ops"]), ("tenant", &["a"])], &["*"]);
    for claims in [
        json!({"groups": "eng", "tenant": "a"}),
        json!({"groups": ["x", "ops"], "tenant": ["a"]}),
        json!({"groups": [1, "ops"], "tenant": "a", "other": {}}),
    ] {
        assert!(matches(&rule, &claims), "{claims}");
    }
    for claims in [
        json!({"groups": "eng"}),
        json!({"groups": "engineering", "tenant": "a"}),
        json!({"groups": "eng ops", "tenant": "a"}),
        json!({"groups": "ENG", "tenant": "a"}),
        json!({"groups": [["eng"]], "tenant": "a"}),
        json!({"groups": {"eng": true}, "tenant": "a"}),
        json!({"groups": [], "tenant": "a"}),
        json!({"groups": null, "tenant": "a"}),
        json!(null),
    ] {
        assert!(!matches(&rule, &claims), "{claims}");
    }
}

#[test]
fn scope_claim_is_a_list_separated_by_spaces() {
    for name in ["scope", "scp"] {
        let rule = rule(&[(name, &["mcp:write"])], &["*"]);
        for value in [json!("mcp:read mcp:write"), json!("mcp:write"), json!(["mcp:write"])] {
            assert!(matches(&rule, &json!({name: value})), "{name}: {value}");
        }
        for value in [json!("mcp:writer"), json!(["mcp:read mcp:write"]), json!("")] {
            assert!(!matches(&rule, &json!({name: value})), "{name}: {value}");
        }
    }
}

#[test]
fn rule_without_claims_matches_callers_without_token() {
    let rules = [rule(&[], &["public__*"]), rule(&[("groups", &["eng"])], &["*"])];
    assert!(allows(&rules, ListKind::Tools, "public__read"));
    assert!(!allows(&rules, ListKind::Tools, "secret__read"));
    assert!(!allows(&rules, ListKind::Prompts, "public__read"));
    for caller in [Caller::Local, Caller::Anonymous(None)] {
        let compiled = AccessRules::compile(&rules).unwrap().unwrap();
        assert_eq!(compiled.access_of(&caller).matching, RuleSet([1].into()));
    }
}

#[test]
fn set_of_rules_can_exceed_64_rules() {
    let rules: Vec<_> = (0..130).map(|n| rule(&[], &[&format!("t{n}")])).collect();
    let last = AccessRules::compile(&rules).unwrap().unwrap();
    let access = last.access_of(&Caller::Local);
    assert!((0..130).all(|n| access.allows(ListKind::Tools, &format!("t{n}"))));
    assert_eq!(access.class().0.len(), 3);
    assert!(!access.class().contains(130) && !access.class().contains(1000));
}

#[test]
fn uri_with_parent_segment_matches_only_the_full_wildcard() {
    let rules = |glob: &str| [Rule { resources: texts(&[glob]), ..Rule::default() }];
    let public = rules("file:///public/*");
    for uri in [
        "file:///public/",
        "file:///public/a..b/...",
        "file:///public/a%20b/./c?d=%2F",
        "file:///public/100%",
    ] {
        assert!(allows(&public, ListKind::Resources, uri), "{uri}");
    }
    for uri in [
        "file:///public/../secret",
        "file:///public/..",
        "file:///public/%2e%2E/secret",
        "file:///public/.%2e%2fsecret",
        "file:///public/%252e%252e/secret",
        "file:///public/..%5csecret",
        "file:///public\\..\\secret",
        "file:///public/.\t./secret",
        "file:///public/.%0a./secret",
        "file:///public/..;a=b/secret",
        "file:///public/x%3f/../../secret",
        "file:///public/..?x",
        "file:///public/%25252525252e",
        "file:///Public/a",
        "file:///secret",
    ] {
        assert!(!allows(&public, ListKind::Resources, uri), "{uri}");
        assert!(allows(&rules("*"), ListKind::Resources, uri), "{uri}");
    }
}

#[test]
fn invalid_rules_are_errors_with_their_number() {
    let error = |wrong: Rule| AccessRules::compile(&[rule(&[], &["a"]), wrong]).unwrap_err();
    assert_eq!(error(Rule::default()), (2, InvalidRule::Empty));
    assert_eq!(error(rule(&[("a", &[])], &["x"])), (2, InvalidRule::NoValues("a".to_owned())));
    assert_eq!(error(rule(&[], &[""])), (2, InvalidRule::Glob(InvalidGlob(String::new()))));
    let long = "x".repeat(257);
    assert!(matches!(error(Rule { prompts: vec![long], ..Rule::default() }), (2, InvalidRule::Glob(_))));
    assert!(AccessRules::compile(&[]).unwrap().is_none());
}

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
