//! Callers with tokens, in both eras, over HTTP in memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thruway_mcp_sdk::{Authorization, Identity, InvalidToken, McpGateway, Rule, VerifyToken};

use crate::http::{Exchange, Message, Session, Site, request};

/// Verifies tokens that consist of a name and groups: `ada:eng+ops`.
pub(super) struct Groups;

impl VerifyToken for Groups {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let (name, groups) = token.split_once(':').ok_or(InvalidToken)?;
        let claims =
            json!({"groups": groups.split('+').collect::<Vec<_>>(), "first": groups.split('+').next()});
        Ok(Identity {
            issuer: "https://login.example".to_owned(),
            subject: name.to_owned(),
            claims: serde_json::from_value(claims).unwrap(),
            ..Identity::default()
        })
    }
}

/// Returns an endpoint that requires tokens.
pub(super) fn guarded(gateway: &McpGateway) -> Site {
    Site::of(gateway.endpoint().authorize(Authorization::given_tokens(Groups)))
}

/// Returns a rule for the callers in one of the groups. Without groups, the rule is for all callers.
pub(super) fn rule(groups: &[&str], tools: &[&str]) -> Rule {
    let claims = match groups {
        [] => BTreeMap::new(),
        groups => BTreeMap::from([("groups".to_owned(), texts(groups))]),
    };
    Rule { claims, tools: texts(tools), ..Rule::default() }
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A caller that uses one era.
pub(super) struct TestCaller<'s> {
    site: &'s Site,
    token: Option<String>,
    session: Option<Session>,
}

impl<'s> TestCaller<'s> {
    /// Returns a caller in each era. A caller without `token` sends no token.
    pub(super) async fn in_both_eras(site: &'s Site, token: Option<&str>) -> [Self; 2] {
        let token = token.map(str::to_owned);
        let mut legacy = Self { site, token: token.clone(), session: None };
        let response = site.send(&legacy.bearing(Session::initialize("2025-11-25", &json!({})))).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let id = response.field("mcp-session-id").map(str::to_owned);
        let session = Session { id, revision: "2025-11-25".to_owned() };
        let initialized = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(site.send(&legacy.bearing(initialized)).await.status, 202);
        legacy.session = Some(session);
        [legacy, Self { site, token, session: None }]
    }

    pub(super) const fn is_legacy(&self) -> bool {
        self.session.is_some()
    }

    pub(super) const fn site(&self) -> &'s Site {
        self.site
    }

    /// Opens the stream for messages that belong to no request. Only legacy callers have such a stream.
    pub(super) fn stream(&self) -> Exchange {
        let session = self.session.as_ref().expect("only legacy callers have a session");
        self.site.open(&self.bearing(session.get()))
    }

    /// Returns the message of a request.
    pub(super) fn message(&self, method: &str, params: Value) -> Message {
        self.bearing(match &self.session {
            Some(session) => session.request(1, method, &params),
            None => Message::modern(method, params),
        })
    }

    /// Returns the message with which a legacy caller cancels its request.
    pub(super) fn cancellation(&self) -> Message {
        let session = self.session.as_ref().expect("only legacy callers send this message");
        let params = json!({"requestId": 1});
        self.bearing(
            session.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})),
        )
    }

    /// Sends a request and returns the response message.
    pub(super) async fn request(&self, method: &str, params: Value) -> Value {
        self.send(&self.message(method, params)).await
    }

    /// Sends a call as a modern client with elicitation.
    pub(super) async fn call_with_forms(&self, params: Value) -> Value {
        assert!(!self.is_legacy());
        let capabilities = json!({"elicitation": {"form": {}}});
        self.send(&self.bearing(Message::modern_with("tools/call", params, &capabilities))).await
    }

    /// Sends a call with these parameters as JSON text.
    pub(super) async fn call_with_text(&self, params: &str) -> Value {
        self.send(&self.message_with_text(params)).await
    }

    /// Returns the message of a call with these parameters as JSON text.
    pub(super) fn message_with_text(&self, params: &str) -> Message {
        let value: Value = serde_json::from_str(params).unwrap();
        let message = self.message("tools/call", value);
        let mut body = request(1, "tools/call", &json!("PARAMS")).to_string();
        let meta = serde_json::from_slice::<Value>(&message.content).unwrap()["params"]["_meta"].to_string();
        let params = params.strip_suffix('}').unwrap();
        body = body.replace(
            "\"PARAMS\"",
            &match meta.as_str() {
                "null" => format!("{params}}}"),
                meta => format!("{params},\"_meta\":{meta}}}"),
            },
        );
        Message { content: body.into(), ..message }
    }

    async fn send(&self, message: &Message) -> Value {
        let response = self.site.send(message).await;
        match response.field("content-type") {
            Some("application/json") => response.message(),
            _ => response.messages().pop().unwrap_or_else(|| panic!("{} {}", response.head, response.text())),
        }
    }

    /// Returns the keys of the items in a list.
    pub(super) async fn list(&self, method: &str, list: &str, key: &str) -> Vec<String> {
        let answer = self.request(method, json!({})).await;
        let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
        items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    }

    fn bearing(&self, message: Message) -> Message {
        match &self.token {
            Some(token) => message.with_field("Authorization", &format!("Bearer {token}")),
            None => message,
        }
    }
}
