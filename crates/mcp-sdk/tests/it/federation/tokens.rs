//! Tokens of callers do not reach the members.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::JsonObject;
use thruway_mcp_sdk::{
    Authorization, EraChoice, Identity, InvalidToken, McpGateway, McpGatewayBuilder, McpServer, Member,
    MemberState, VerifyToken,
};
use thruway_net::InProcessServer;
use thruway_testkit::Random;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::callers::TestCaller;
use super::sites::wait_for;
use crate::client;
use crate::fixtures::server;
use crate::http::Site;

/// Accepts every token. The identity of the caller does not contain the token.
struct AnyToken;

impl VerifyToken for AnyToken {
    fn verify(&self, _: &str) -> Result<Identity, InvalidToken> {
        Ok(Identity::new("https://login.example", "ada", JsonObject::new()))
    }
}

/// All bytes that the members have received.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<u8>>>);

impl Received {
    /// Copies all bytes between a client and a server. Records the bytes of the client.
    fn relay<C, S>(&self, client: C, server: S)
    where
        C: AsyncRead + AsyncWrite + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (mut from_client, mut to_client) = split(client);
        let (mut from_server, mut to_server) = split(server);
        let received = self.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                received.0.lock().unwrap().extend_from_slice(&buffer[..length]);
                if to_server.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown().await;
        });
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    }

    /// A member on a stream, as a child process would use it.
    fn on_stream(&self, name: &str, server: McpServer, era: EraChoice) -> Member {
        let received = self.clone();
        Member::new(name, move |builder| {
            let (near, far) = UnixStream::pair().unwrap();
            let (pipe, of_server) = duplex(64 << 10);
            server.serve_pipe(of_server);
            received.relay(far, pipe);
            Ok(builder.era(era).unix_stream(near))
        })
    }

    /// A member over HTTP. `url` is the URL of the server.
    async fn over_http(&self, name: &str, url: &str, era: EraChoice) -> Member {
        let authority = url.split('/').nth(2).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relayed = format!("http://{}/mcp", listener.local_addr().unwrap());
        let received = self.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&authority).await.unwrap();
                received.relay(near, far);
            }
        });
        Member::new(name, move |builder| Ok(builder.era(era).http(&relayed)))
    }

    /// Checks that the bytes contain no part of `tokens`, also not in other encodings.
    fn check_for(&self, tokens: &[String]) {
        let received = self.0.lock().unwrap();
        let parts: HashSet<_> = tokens.iter().flat_map(|token| parts_of(token)).collect();
        let leaked = received.windows(PART_BYTES).find(|window| parts.contains(&part(window)));
        assert_eq!(leaked.map(String::from_utf8_lossy), None, "a part of a token");
    }
}

/// All parts of `token`, also in other encodings.
fn parts_of(token: &str) -> Vec<Part> {
    let hex = token.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let [base64, url_safe] = [BASE64_STANDARD.encode(token), BASE64_URL_SAFE_NO_PAD.encode(token)];
    let texts = [token, &*hex, &base64, &url_safe];
    texts.into_iter().flat_map(|text| text.as_bytes().windows(PART_BYTES)).map(part).collect()
}

/// The bytes of a part. A number costs less than a slice to hash and to compare.
type Part = u64;

fn part(bytes: &[u8]) -> Part {
    Part::from_ne_bytes(bytes.try_into().unwrap())
}

/// Length of the parts of a token for which the test searches. Shorter parts would also occur by chance.
const PART_BYTES: usize = size_of::<Part>();

fn random_token(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..24 + random.below(200)).map(|_| char::from(*random.pick(LETTERS))).collect()
}

/// Returns a random request for a random member.
fn random_request(random: &mut Random, members: &[&str]) -> (&'static str, Value) {
    let member = *random.pick(members);
    let name = |name: &str| format!("{member}__{name}");
    let prompt = json!({"type": "ref/prompt", "name": name("greeting")});
    match random.below(12) {
        0 => ("tools/list", json!({})),
        1 => ("prompts/list", json!({})),
        2 => ("resources/list", json!({})),
        3 => ("resources/templates/list", json!({})),
        4 => ("prompts/get", json!({"name": name("greeting"), "arguments": {"message": "x"}})),
        5 => ("resources/read", json!({"uri": "test://text"})),
        6 => ("resources/subscribe", json!({"uri": "test://text"})),
        7 => ("completion/complete", json!({"ref": prompt, "argument": {"name": "message", "value": "a"}})),
        8 => ("tasks/get", json!({"taskId": format!("{member}.1")})),
        9 => ("tools/call", json!({"name": name("unknown"), "arguments": {}})),
        10 => (
            "tools/call",
            json!({"name": name("progress"), "arguments": {}, "_meta": {"progressToken": "p"}}),
        ),
        _ => ("tools/call", json!({"name": name("echo"), "arguments": {"message": "hello"}})),
    }
}

#[tokio::test]
async fn no_part_of_a_token_reaches_a_member_in_a_random_run() {
    let (received, fixtures) = (Received::default(), server());
    let far = client::sites::Site::new(&fixtures);
    let members = [
        received.on_stream("old-pipe", fixtures.clone(), EraChoice::Legacy),
        received.on_stream("new-pipe", fixtures.clone(), EraChoice::Modern),
        received.over_http("old-http", &far.url, EraChoice::Legacy).await,
        received.over_http("new-http", &far.url, EraChoice::Modern).await,
    ];
    let names = ["old-pipe", "new-pipe", "old-http", "new-http"];
    let builder = McpGateway::builder("gateway", "1.0");
    let gateway = members.into_iter().fold(builder, McpGatewayBuilder::member).build().unwrap();
    for name in names {
        wait_for(&gateway, name, MemberState::Connected).await;
    }
    let site = Site::of(gateway.endpoint().authorize(Authorization::given_tokens(AnyToken)));
    let mut random = Random::new(77);
    let tokens: Vec<_> = (0..20).map(|_| random_token(&mut random)).collect();
    for token in &tokens {
        for caller in TestCaller::in_both_eras(&site, Some(token)).await {
            for _ in 0..20 {
                let (method, params) = random_request(&mut random, &names);
                let message = ["Cookie", "X-Api-Key", "X-Forwarded-Access-Token", "Proxy-Authorization"]
                    .into_iter()
                    .fold(caller.message(method, params), |message, name| message.with_field(name, token));
                let response = site.send(&message).await;
                assert_ne!(response.status, 401, "{method}");
            }
        }
    }
    received.check_for(&tokens);
    assert!(
        received.0.lock().unwrap().windows(5).any(|window| window == b"hello"),
        "calls reach the members"
    );
    gateway.close().await;
}
