//! For any bytes that a client sends, the upstream server gets the same requests that the gateway saw, and no
//! others.
//!
//! Each case is sent on its own connection. The gateway's parser shows the requests that the gateway sees.
//! The upstream server has a strict parser with different code, and reports its requests in its responses.
//! Both results must be the same.

use thruway_gateway::{ForwardConfig, ForwardedFields, HostRewrite, PathMatch, PathRewrite, Rewrite};
use thruway_server::{Config, Networks, ProxyFields, TrustedProxies};
use thruway_testkit::request_parser::{ParsedRequest, ParsedRequests, parse_requests};
use thruway_testkit::{Random, corpus};

use crate::forward::{Client, Recorded, Recorder};
use crate::gateway::Gateway;

fn recorded(request: Recorded) -> ParsedRequest {
    (format!("{} {}", request.method, request.target), request.content)
}

/// Returns the requests that the upstream server reports, and the statuses of the gateway's own responses.
fn upstream_requests(client: &mut Client, parsed: &ParsedRequests) -> (Vec<ParsedRequest>, Vec<u16>) {
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    loop {
        // Responses arrive in the order of the requests.
        let request = parsed.complete.get(answers.len());
        let is_to_head = request.is_some_and(|(control, _)| control.starts_with("HEAD "));
        let Some(answer) = client.next_answer(is_to_head) else { return (answers, refusals) };
        match answer.status {
            100 => {}
            200 if is_to_head => answers.push(request.unwrap().clone()),
            200 => answers.push(parse_reported(&answer.content)),
            status => refusals.push(status),
        }
    }
}

fn parse_reported(content: &[u8]) -> ParsedRequest {
    let mut parts = content.splitn(3, |byte| *byte == b' ');
    let mut part = || String::from_utf8_lossy(parts.next().unwrap()).into_owned();
    let control = format!("{} {}", part(), part());
    (control, parts.next().unwrap().to_vec())
}

/// A gateway and its upstream server.
struct Setup {
    recorder: Recorder,
    gateway: Gateway,
    /// Prefix that the gateway adds to all paths.
    path_start: &'static str,
}

impl Setup {
    fn new() -> Self {
        let recorder = Recorder::start();
        let gateway = Gateway::in_order(recorder.address);
        Self { recorder, gateway, path_start: "" }
    }

    /// Starts a gateway that trusts its clients' headers and rewrites as much as possible.
    fn rewriting() -> Self {
        let recorder = Recorder::start();
        let paths = PathMatch::Prefix("/".to_owned());
        let path = Some(PathRewrite::new("/start{path}", &paths).unwrap());
        let mut rewrite = Rewrite { path, ..Rewrite::default() };
        rewrite.request.set("X", "{path}{query} {host} {client}", &paths).unwrap();
        rewrite.request.remove("X-Debug").unwrap();
        rewrite.response.set("X", "{path}{query} {host} {client}", &paths).unwrap();
        let forward = ForwardConfig {
            rewrite,
            forwarded: ForwardedFields::Both,
            host: HostRewrite::Server,
            ..ForwardConfig::default()
        };
        let networks = ["127.0.0.0/8", "10.0.0.0/8"].map(|network| network.parse().unwrap());
        let networks = Networks::from_iter(networks);
        let trusted_proxies = TrustedProxies::new(networks, ProxyFields::XForwarded);
        let config = Config { pipelined_requests: 1, trusted_proxies, ..Config::default() };
        let gateway = Gateway::with(recorder.address, forward, config);
        Self { recorder, gateway, path_start: "/start" }
    }

    /// Returns the request as the upstream server should get it.
    fn rewritten(&self, (control, content): ParsedRequest) -> ParsedRequest {
        let (method, target) = control.split_once(' ').unwrap();
        match target {
            "*" => (control, content),
            target => (format!("{method} {}{target}", self.path_start), content),
        }
    }

    /// Sends `bytes` and compares the requests of both parsers. Returns the number of forwarded requests,
    /// and the refusals.
    fn check(&self, bytes: &[u8]) -> (usize, Vec<u16>) {
        self.check_cut(bytes, bytes.len())
    }

    /// Does the same, with the bytes sent in two pieces.
    fn check_cut(&self, bytes: &[u8], first: usize) -> (usize, Vec<u16>) {
        let mut parsed = parse_requests(bytes);
        parsed.complete = parsed.complete.into_iter().map(|seen| self.rewritten(seen)).collect();
        let mut client = Client::new(self.gateway.address);
        client.send(&bytes[..first]);
        client.send(&bytes[first..]);
        client.finish();
        let (reported, refusals) = upstream_requests(&mut client, &parsed);
        let arrived: Vec<_> = self.recorder.take().into_iter().map(recorded).collect();
        let case = bytes.escape_ascii();
        assert_eq!(arrived, parsed.complete, "requests at the upstream server and at the gateway: {case}");
        assert_eq!(reported, arrived, "requests in the responses and at the upstream server: {case}");
        assert_eq!(self.recorder.violations(), [""; 0], "{case}");
        assert!(
            !parsed.is_invalid || refusals.iter().any(|status| *status >= 400),
            "no response reports the error: {case}"
        );
        (reported.len(), refusals)
    }
}

#[test]
fn upstream_gets_exactly_the_requests_that_gateway_parsed() {
    check_random_requests(&Setup::new(), |_| true);
}

#[test]
fn upstream_gets_exactly_the_parsed_requests_after_rewrites() {
    // A path with dots is refused, and only the status of the response reveals the reason.
    let has_no_dots = |bytes: &[u8]| {
        ["/..", "/%2e"].iter().all(|dots| !bytes.windows(dots.len()).any(|part| part == dots.as_bytes()))
    };
    check_random_requests(&Setup::rewriting(), has_no_dots);
}

fn check_random_requests(setup: &Setup, is_used: impl Fn(&[u8]) -> bool) {
    let mut random = Random::new(9112);
    let (mut forwarded, mut rejected) = (0, 0);
    for _ in 0..CASES {
        let bytes = corpus::random_requests(&mut random);
        if !is_used(&bytes) {
            continue;
        }
        let (requests, refusals) = setup.check_cut(&bytes, random.below(bytes.len()));
        forwarded += requests;
        rejected += refusals.len();
    }
    // The corpus is useful only if many cases are forwarded and many refused.
    assert!(
        forwarded > CASES / 2 && rejected > CASES / 4,
        "{forwarded} requests forwarded, {rejected} rejected"
    );
}

/// Servers are known to disagree about these requests, so the gateway refuses them.
#[test]
fn ambiguous_request_is_rejected() {
    for (setup, head) in [Setup::new(), Setup::rewriting()]
        .iter()
        .flat_map(|setup| corpus::AMBIGUOUS_FRAMING.map(|head| (setup, head)))
    {
        let bytes = format!("POST /a HTTP/1.1\r\nHost: a\r\n{head}\r\n5\r\nGET /x\r\n0\r\n\r\n");
        let (forwarded, refusals) = setup.check(bytes.as_bytes());
        assert_eq!((forwarded, refusals.len()), (0, 1), "{head:?}");
    }
}

#[test]
fn request_inside_a_body_stays_part_of_the_body() {
    let setup = Setup::new();
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = hidden.len();
    for bytes in [
        format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{hidden}\r\n0\r\n\r\n"
        ),
        format!("GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!(
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: {length}\r\n\r\n{hidden}"
        ),
    ] {
        assert_eq!(setup.check(bytes.as_bytes()), (1, vec![]), "{bytes}");
    }
}

const CASES: usize = 4000;
