//! Random callers, rules and calls: a client can call exactly the tools that its list contains.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use serde_json::{Value, json};
use thruway_mcp_sdk::{McpGateway, McpGatewayOptions, Rule, ToolSearch, VerifyToken};
use thruway_mcp_server::backend::Caller;
use thruway_message::{FieldLine, FieldName, FieldSection, FieldValue};
use thruway_testkit::Random;

use super::callers::{Groups, TestCaller, guarded, rule};
use super::rules::{NAMES, error_of, gateway, tools};
use super::sites::in_memory;
use crate::http::Site;

/// A condition on names, with its glob.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    All,
    Member(&'static str),
    Tool(&'static str),
    Exact(&'static str, &'static str),
}

impl Pattern {
    fn random(random: &mut Random) -> Self {
        let (member, tool) = (*random.pick(&MEMBERS), *random.pick(&NAMES));
        match random.below(12) {
            0 => Self::All,
            1..4 => Self::Member(member),
            4..7 => Self::Tool(tool),
            _ => Self::Exact(member, tool),
        }
    }

    fn glob(self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Member(member) => format!("{member}__*"),
            Self::Tool(tool) => format!("*__{tool}"),
            Self::Exact(member, tool) => format!("{member}__{tool}"),
        }
    }

    fn matches(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Member(member) => name.split_once("__").is_some_and(|(other, _)| other == member),
            Self::Tool(tool) => name.split_once("__").is_some_and(|(_, other)| other == tool),
            Self::Exact(member, tool) => name == format!("{member}__{tool}"),
        }
    }
}

const MEMBERS: [&str; 3] = ["files", "issues", "wiki"];
const GROUPS: [&str; 6] = ["eng", "ops", "sales", "hr", "legal", "it"];

/// A random rule: the group for which it holds, if any, and its patterns.
type RandomRule = (Option<&'static str>, Vec<Pattern>);

fn random_rules(random: &mut Random) -> Vec<RandomRule> {
    let count = 1 + random.below(8);
    let rule = |_| {
        let group = (!random.one_in(8)).then(|| *random.pick(&GROUPS));
        (group, (0..=random.below(2)).map(|_| Pattern::random(random)).collect())
    };
    (0..count).map(rule).collect()
}

fn compiled(rules: &[RandomRule]) -> Vec<Rule> {
    let rules = rules.iter().map(|(group, patterns)| {
        let tools = patterns.iter().map(|pattern| pattern.glob()).collect();
        Rule { tools, ..rule(group.as_slice(), &[]) }
    });
    rules.collect()
}

fn is_visible(rules: &[RandomRule], groups: &[&str], name: &str) -> bool {
    rules.iter().any(|(group, patterns)| {
        group.is_none_or(|group| groups.contains(&group))
            && patterns.iter().any(|pattern| pattern.matches(name))
    })
}

/// Returns parameters of a call of `name`: with the exact name, with another JSON text of this name, or with
/// a similar name. `other` is another tool.
fn params(random: &mut Random, name: &str, other: &str) -> (String, bool) {
    let json = |name: &str| json!({"name": name}).to_string();
    let (text, is_exact) = match random.below(12) {
        0 => (format!(r#"{{"n\u0061me":"\u{:04x}{}"}}"#, u32::from(name.as_bytes()[0]), &name[1..]), true),
        1 => (json(&name.to_uppercase()), false),
        2 => (json(&format!("{name} ")), false),
        3 => (json(&format!("{}__{name}", name.split("__").next().unwrap())), false),
        4 => (json(&name.replace("__", "%5f_")), false),
        5 => (format!(r#"{{"name":"{other}","name":"{name}"}}"#), false),
        6 => (format!(r#"{{"name":"{other}","Name":"{name}"}}"#), false),
        7 => (json(name.split_once("__").unwrap().1), false),
        _ => (json(name), true),
    };
    (text, is_exact)
}

/// A way to call a tool.
struct Route<'s> {
    caller: TestCaller<'s>,
    /// `true` if the calls are calls of `call_tool`.
    is_search: bool,
}

impl Route<'_> {
    async fn call(&self, params: &str) -> Value {
        if self.is_search {
            let params = format!(r#"{{"name":"call_tool","arguments":{params}}}"#);
            return self.caller.call_with_text(&params).await;
        }
        self.caller.call_with_text(params).await
    }
}

/// Returns the ways of one caller that parse calls: both eras, and both eras with `call_tool`.
async fn routes<'s>(direct: &'s Site, searched: &'s Site, token: &str) -> Vec<Route<'s>> {
    let mut routes = Vec::new();
    for (site, is_search) in [(direct, false), (searched, true)] {
        let callers = TestCaller::in_both_eras(site, Some(token)).await;
        routes.extend(callers.map(|caller| Route { caller, is_search }));
    }
    routes
}

/// Returns the tool that the fast path selects for a call. Returns `None` if the fast path leaves the call to the
/// other path.
fn relayed(gateway: &McpGateway, token: &str, caller: &TestCaller<'_>, params: &str) -> Option<String> {
    let message = caller.message_with_text(params);
    let mut fields = FieldSection::with_capacity(512, 16);
    for (name, value) in &message.fields {
        let (name, value) = (FieldName::new(name.as_bytes()), FieldValue::new(value.trim().as_bytes()));
        fields.append(FieldLine { name: name.unwrap(), value: value.unwrap() });
    }
    let caller = Caller::Identified(Arc::new(Groups.verify(token).unwrap()), None);
    let call = gateway.relayed_call(fields.lines(), &message.content, &caller, |_| true)?;
    let content: Value = serde_json::from_slice(call.content()).unwrap();
    assert_eq!(content["params"]["name"], call.name(), "{content}");
    Some(format!("{}__{}", call.member(), call.name()))
}

fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0))
}

#[tokio::test(start_paused = true)]
async fn hidden_tool_is_not_callable_for_10000_random_pairs() {
    let seed = seed();
    // The test harness shows this line if the test fails.
    println!("to repeat this run, set SEED={seed}");
    let mut random = Random::new(seed);
    let mut relayed = 0;
    for _ in 0..10 {
        let rules = random_rules(&mut random);
        let with_search = |search| McpGatewayOptions { search, ..McpGatewayOptions::default() };
        let members = || MEMBERS.map(|member| in_memory(member, &tools(member, &NAMES))).into();
        let plain = gateway(with_search(None), compiled(&rules), members()).await;
        let search = gateway(with_search(Some(ToolSearch::default())), compiled(&rules), members()).await;
        let (direct, searched) = (guarded(&plain), guarded(&search));
        for _ in 0..10 {
            let groups: Vec<_> = GROUPS.into_iter().filter(|_| random.one_in(3)).collect();
            let token = format!("ada:{}", groups.join("+"));
            let routes = routes(&direct, &searched, &token).await;
            let check = CallerCheck {
                gateway: &plain,
                token: &token,
                routes: &routes,
                is_visible: &|name| is_visible(&rules, &groups, name),
            };
            relayed += check.run(&mut random).await;
        }
        plain.close().await;
        search.close().await;
    }
    assert!(relayed > 500, "only {relayed} calls used the fast path");
}

/// One caller, and its rights.
struct CallerCheck<'c> {
    gateway: &'c McpGateway,
    token: &'c str,
    routes: &'c [Route<'c>],
    is_visible: &'c dyn Fn(&str) -> bool,
}

impl CallerCheck<'_> {
    /// Checks a list of the caller, and 100 random calls. Returns the number of calls that used the fast path.
    async fn run(&self, random: &mut Random) -> usize {
        let all: Vec<_> =
            MEMBERS.into_iter().flat_map(|member| NAMES.map(|name| format!("{member}__{name}"))).collect();
        let mut visible: Vec<_> = all.iter().filter(|name| (self.is_visible)(name)).cloned().collect();
        visible.sort_unstable();
        let listing = &self.routes[random.below(2)].caller;
        assert_eq!(listing.list("tools/list", "tools", "name").await, visible);
        let mut relayed = 0;
        for _ in 0..100 {
            let (name, other) = (random.pick(&all), random.pick(&all));
            let (params, is_exact) = params(random, name, other);
            let exact = is_exact.then_some(name);
            // The fast path has no network and costs less, so most calls use it.
            if random.one_in(5) {
                let answer = random.pick(self.routes).call(&params).await;
                check_answer(&answer, &params, exact, self.is_visible);
            } else {
                relayed += usize::from(self.check_fast_path(&params, exact));
            }
        }
        relayed
    }

    /// Checks a call on the fast path. Returns `true` if the fast path handles this call.
    fn check_fast_path(&self, params: &str, exact: Option<&String>) -> bool {
        let caller = &self.routes[1].caller;
        let Some(tool) = relayed(self.gateway, self.token, caller, params) else { return false };
        // A member answers calls of unknown tools itself.
        let is_known = tool.split_once("__").is_some_and(|(_, own)| NAMES.contains(&own));
        assert!(!is_known || (self.is_visible)(&tool), "{params}: {tool}");
        assert!(exact.is_none_or(|name| *name == tool), "{params}: {tool}");
        true
    }
}

/// Checks the answer to a call. `exact` is the tool, if the call names exactly this tool.
fn check_answer(answer: &Value, params: &str, exact: Option<&String>, is_visible: impl Fn(&str) -> bool) {
    let result = &answer["result"];
    if result["isError"] == true {
        assert_eq!(exact, None, "{params}: {answer}");
        return;
    }
    if let Some(called) = result["content"][0]["text"].as_str() {
        assert!(is_visible(called), "{params}: {answer}");
        assert!(exact.is_none_or(|name| called == name), "{params}: {answer}");
        return;
    }
    let (code, message) = error_of(answer);
    assert!(code == -32602 || code == -32020 && exact.is_none(), "{params}: {answer}");
    if let Some(name) = exact {
        assert!(!is_visible(name), "{params}: {answer}");
        assert_eq!(message, format!("Unknown tool: {name}"), "{params}");
    }
}
