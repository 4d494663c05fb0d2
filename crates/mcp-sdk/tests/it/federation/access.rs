//! The identity of the gateway and of its callers toward members.

use serde_json::{Value, json};
use thruway_mcp_sdk::oauth::{ServerAccess, SubjectTokenType};
use thruway_mcp_sdk::{EraChoice, McpGateway, McpGatewayBuilder, Member, MemberState};
use thruway_testkit::Random;

use super::callers::{TestCaller, guarded};
use super::issuers::{GuardedServer, ID_JAG, Issuer, TokenRequest};
use super::sites::{ERAS, wait_for};
use crate::http::Site;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

async fn site(members: impl IntoIterator<Item = Member>) -> Site {
    guarded(&gateway(members).await)
}

async fn gateway(members: impl IntoIterator<Item = Member>) -> McpGateway {
    let builder = McpGateway::builder("gateway", "1.0");
    let gateway = members.into_iter().fold(builder, McpGatewayBuilder::member).build().unwrap();
    for status in gateway.members() {
        wait_for(&gateway, &status.name, MemberState::Connected).await;
    }
    gateway
}

fn exchange(issuer: &Issuer, server: &GuardedServer) -> ServerAccess {
    let issuer = issuer.token_issuer("corp");
    ServerAccess::exchange(issuer, server.target(), SubjectTokenType::AccessToken)
}

/// Returns the answer of the tool `whoami` of a member.
async fn call(caller: &TestCaller<'_>, member: &str) -> Value {
    caller.request("tools/call", json!({"name": format!("{member}__whoami"), "arguments": {}})).await
}

/// Returns the subject of the token that the member got in a call.
async fn whoami(caller: &TestCaller<'_>, member: &str) -> String {
    let answer = call(caller, member).await;
    let text = &answer["result"]["content"][0]["text"];
    text.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn has(request: &TokenRequest, parameters: &[(&str, &str)]) {
    for (name, value) in parameters {
        assert_eq!(request.parameter(name), Some(*value), "{name} in {request:?}");
    }
}

#[tokio::test]
async fn all_callers_share_the_token_of_the_gateway_with_client_credentials() {
    for era in ERAS {
        let issuer = Issuer::new();
        let server = GuardedServer::start(&issuer).await;
        let mut target = server.target();
        target.scope = Some("read write".to_owned());
        target.audience = Some("issues".to_owned());
        let access = ServerAccess::client_credentials(issuer.token_issuer("corp"), target);
        let site = site([server.member("issues", era).access(access)]).await;
        for token in ["ada:eng", "bob:eng"] {
            for caller in TestCaller::in_both_eras(&site, Some(token)).await {
                assert_eq!(whoami(&caller, "issues").await, "gateway");
            }
        }
        let requests = issuer.requests();
        assert_eq!(requests.len(), 1, "{era:?}: {requests:?}");
        // printf gateway:secret | base64
        assert_eq!(requests[0].authorization.as_deref(), Some("Basic Z2F0ZXdheTpzZWNyZXQ="));
        let parameters = [
            ("grant_type", "client_credentials"),
            ("resource", &*server.url),
            ("audience", "issues"),
            ("scope", "read write"),
        ];
        has(&requests[0], &parameters);
    }
}

#[tokio::test]
async fn secret_is_in_the_form_if_the_issuer_requires_it() {
    let issuer = Issuer::new();
    let server = GuardedServer::start(&issuer).await;
    let token_issuer = issuer.with_options("corp", |options| options.has_secret_in_form = true);
    let access = ServerAccess::client_credentials(token_issuer, server.target());
    site([server.member("issues", EraChoice::Modern).access(access)]).await;
    let request = &issuer.requests()[0];
    assert_eq!(request.authorization, None);
    has(request, &[("client_id", "gateway"), ("client_secret", "secret")]);
}

#[tokio::test]
async fn member_gets_the_exchanged_token_of_each_caller() {
    for era in ERAS {
        let issuer = Issuer::new();
        let server = GuardedServer::start(&issuer).await;
        let site = site([server.member("issues", era).access(exchange(&issuer, &server))]).await;
        for name in ["ada", "bob"] {
            let token = format!("{name}:eng");
            for caller in TestCaller::in_both_eras(&site, Some(&token)).await {
                for _ in 0..3 {
                    assert_eq!(whoami(&caller, "issues").await, name, "{era:?}");
                }
                let tools = caller.list("tools/list", "tools", "name").await;
                assert_eq!(tools, ["issues__whoami"]);
            }
        }
        let exchanges = issuer.exchanges();
        assert_eq!(exchanges.len(), 2, "{era:?}: {exchanges:?}");
        for (exchange, name) in exchanges.iter().zip(["ada", "bob"]) {
            let parameters = [
                ("grant_type", EXCHANGE),
                ("subject_token", &*format!("{name}:eng")),
                ("subject_token_type", ACCESS_TOKEN),
                ("requested_token_type", ACCESS_TOKEN),
                ("resource", &*server.url),
            ];
            has(exchange, &parameters);
        }
    }
}

#[tokio::test]
async fn assertion_of_the_identity_provider_is_exchanged_at_the_server_of_the_member() {
    for era in ERAS {
        let (provider, authorization_server) = (Issuer::new(), Issuer::new());
        let server = GuardedServer::start(&authorization_server).await;
        let mut target = server.target();
        target.scope = Some("read".to_owned());
        let at_member = authorization_server
            .with_options("member", |options| options.issuer = Some("https://as".to_owned()));
        let access = ServerAccess::enterprise(
            provider.token_issuer("corp"),
            at_member,
            target,
            SubjectTokenType::IdToken,
        );
        let site = site([server.member("issues", era).access(access)]).await;
        // The other authorization server knows the assertions of the provider.
        authorization_server.trust(&provider);
        for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
            assert_eq!(whoami(&caller, "issues").await, "ada", "{era:?}");
        }
        assert_eq!((provider.requests().len(), authorization_server.exchanges().len()), (1, 1));
        let parameters = [
            ("grant_type", EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("subject_token", "ada:eng"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("audience", "https://as"),
            ("resource", &*server.url),
            ("scope", "read"),
        ];
        has(&provider.requests()[0], &parameters);
        let grant = &authorization_server.exchanges()[0];
        has(grant, &[("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("scope", "read")]);
        assert_eq!(grant.parameter("subject_token"), None);
    }
}

#[tokio::test]
async fn concurrent_calls_of_a_caller_share_one_exchange() {
    let issuer = Issuer::new();
    let server = GuardedServer::start(&issuer).await;
    let site = site([server.member("issues", EraChoice::Modern).access(exchange(&issuer, &server))]).await;
    let [_, caller] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
    let message = caller.message("tools/call", json!({"name": "issues__whoami", "arguments": {}}));
    let calls: Vec<_> = (0..50).map(|_| site.open(&message)).collect();
    for call in calls {
        assert_eq!(call.response().await.status, 200);
    }
    assert_eq!(issuer.exchanges().len(), 1);
}

#[tokio::test]
async fn refused_token_is_exchanged_once_more() {
    for era in ERAS {
        let issuer = Issuer::new();
        let server = GuardedServer::start(&issuer).await;
        let site = site([server.member("issues", era).access(exchange(&issuer, &server))]).await;
        for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
            assert_eq!(whoami(&caller, "issues").await, "ada");
            let before = issuer.exchanges().len();
            issuer.revoke();
            assert_eq!(whoami(&caller, "issues").await, "ada", "{era:?}");
            assert_eq!(issuer.exchanges().len(), before + 1);
        }
    }
}

#[tokio::test]
async fn failed_exchange_names_the_member_but_not_the_token() {
    for era in ERAS {
        let issuer = Issuer::new();
        let server = GuardedServer::start(&issuer).await;
        let site = site([server.member("issues", era).access(exchange(&issuer, &server))]).await;
        // Some servers repeat the token in their errors.
        issuer.refuse(Some(json!({"error": "ada:eng", "error_description": "ada:eng is invalid"})));
        for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
            let answer = call(&caller, "issues").await;
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(answer["error"]["data"]["server"], "issues", "{answer}");
            assert!(!answer.to_string().contains("ada:eng"), "{answer}");
        }
        issuer.refuse(None);
        for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
            assert_eq!(whoami(&caller, "issues").await, "ada");
        }
    }
}

#[tokio::test]
async fn caller_without_token_cannot_use_a_member_with_exchange() {
    let issuer = Issuer::new();
    let server = GuardedServer::start(&issuer).await;
    let gateway =
        gateway([server.member("issues", EraChoice::Modern).access(exchange(&issuer, &server))]).await;
    let site = Site::of(gateway.endpoint());
    for caller in TestCaller::in_both_eras(&site, None).await {
        let answer = call(&caller, "issues").await;
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["server"]),
            (&json!(-32603), &json!("issues"))
        );
    }
    assert_eq!(issuer.exchanges().len(), 0);
}

/// Calls members of both eras as many callers at the same time. Each member must see the subject of its
/// caller, and no part of the caller's token.
#[tokio::test]
async fn no_part_of_a_callers_token_reaches_a_member() {
    let mut random = Random::new(0x1D_3A6);
    let issuer = Issuer::new();
    let servers = [GuardedServer::start(&issuer).await, GuardedServer::start(&issuer).await];
    let members = servers.iter().zip(["old", "new"]).zip(ERAS);
    let members = members
        .map(|((server, name), era)| server.member(name, era).access(exchange(&issuer, server)))
        .collect::<Vec<_>>();
    let site = site(members).await;
    let mut tokens = Vec::new();
    for number in 0..12 {
        let secret = random.bytes(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", 40);
        tokens.push((format!("caller{number}"), String::from_utf8(secret).unwrap()));
    }
    let mut callers = Vec::new();
    for (name, secret) in &tokens {
        let of_both_eras = TestCaller::in_both_eras(&site, Some(&format!("{name}:{secret}"))).await;
        callers.extend(of_both_eras.into_iter().map(|caller| (name, caller)));
    }
    for _ in 0..20 {
        if random.one_in(4) {
            issuer.revoke();
        }
        let mut open = Vec::new();
        // A caller sends one request at a time, because all its requests have the same id.
        for (name, caller) in &callers {
            if random.one_in(2) {
                let params =
                    json!({"name": format!("{}__whoami", random.pick(&["old", "new"])), "arguments": {}});
                open.push((*name, site.open(&caller.message("tools/call", params))));
            }
        }
        for (name, exchange) in open {
            let response = exchange.response().await;
            assert!(response.text().contains(&format!("\"{name}\"")), "{name}: {}", response.text());
        }
    }
    for server in &servers {
        let received = server.received();
        assert!(!received.is_empty());
        for (_, secret) in &tokens {
            for part in secret.as_bytes().windows(PART_BYTES) {
                let is_part = |window: &[u8]| window == part;
                assert!(!received.windows(PART_BYTES).any(is_part), "a member got a part of a token");
            }
        }
    }
}

/// Length of a part of a token that cannot occur by chance.
const PART_BYTES: usize = 8;
