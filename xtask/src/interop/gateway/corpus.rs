//! Sends request smuggling attempts through the gateway. The upstream server must see exactly the requests
//! that the gateway saw.
//!
//! Each case uses a new connection. After each case, a marker request on another connection marks the end of
//! the case in the upstream log. The check compares the results of the gateway's parser with the upstream log
//! and the responses.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use thruway_testkit::request_parser::{ParsedRequests, parse_requests};
use thruway_testkit::{Random, corpus};

use super::answers::{self, Answer, Received};
use super::seen::{Log, SeenRequest, ok};
use crate::stop::Stop;

/// A gateway with one upstream server. All cases run against this gateway.
pub(super) struct CorpusRun<'p> {
    pub(super) gateway: SocketAddr,
    pub(super) log: Log<'p>,
    /// `true` if the responses of the upstream server describe the requests.
    pub(super) describes_requests: bool,
    pub(super) stop: &'p Stop,
}

/// Counts of cases and requests.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) cases: usize,
    /// The requests that the upstream server answered, including the marker requests.
    pub(super) seen: Vec<SeenRequest>,
    /// Number of well-formed requests without a successful response: the gateway rejected the request, or an
    /// earlier request on the same connection.
    pub(super) rejected: usize,
}

/// The pieces of a case. Each piece is sent with a separate write.
pub(crate) type Pieces = Vec<Vec<u8>>;

/// Returns our own cases: known attacks on other gateways, and `variations` random requests.
pub(super) fn own_cases(variations: usize) -> Vec<Pieces> {
    let known = corpus::AMBIGUOUS_FRAMING.iter().map(|lines| {
        vec![format!("POST /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n5\r\nGET /x\r\n0\r\n\r\n").into_bytes()]
    });
    let mut random = Random::new(9112);
    let varied = (0..variations).map(|_| {
        let case = corpus::random_requests(&mut random);
        let (first, rest) = case.split_at(random.below(case.len()));
        vec![first.to_vec(), rest.to_vec()]
    });
    known.chain(varied).collect()
}

impl CorpusRun<'_> {
    /// Runs all cases.
    ///
    /// # Errors
    /// In a case, the upstream server did not see exactly the requests of the gateway. Or at most `pass_min`
    /// requests passed, which is too few for a useful test.
    pub(super) fn check_all(&mut self, cases: &[Pieces], pass_min: usize) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for pieces in cases {
            self.stop.check()?;
            let bytes = pieces.concat();
            let parsed = parse_requests(&bytes);
            tally.cases += 1;
            let result = self.compare(pieces, &parsed, &mut tally);
            result.with_context(|| {
                let seen = &parsed.complete;
                format!("case {}: {}\nthe gateway saw {seen:?}", tally.cases, bytes.escape_ascii())
            })?;
        }
        let passed = tally.seen.len() - tally.cases;
        ensure!(
            passed > pass_min,
            "only {passed} requests of {} cases passed through the gateway",
            tally.cases
        );
        Ok(tally)
    }

    fn compare(
        &mut self,
        pieces: &[Vec<u8>],
        parsed: &ParsedRequests,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let received = exchange(self.gateway, pieces)?;
        let is_head =
            |n: usize| parsed.complete.get(n).is_some_and(|(control, _)| control.starts_with("HEAD "));
        let answers = answers::split(&received, is_head)?;
        let seen = self.requests_before_marker(tally.cases)?;
        let (answered, rejected) = compare(parsed, &answers, expects_continue(&pieces.concat()), &seen)?;
        if self.describes_requests {
            let described = answers.iter().zip(&parsed.complete).enumerate();
            for (_, (answer, request)) in
                described.filter(|(n, (answer, _))| answer.status == 200 && !is_head(*n))
            {
                let described = SeenRequest::parse(&answer.content)?.as_parsed();
                ensure!(described == *request, "the response to {request:?} describes {described:?}");
            }
        }
        tally.rejected += rejected;
        tally.seen.extend(answered);
        tally.seen.push(marker(tally.cases));
        Ok(())
    }

    /// Sends marker request `n`, and returns the requests that the upstream server logged before it.
    fn requests_before_marker(&mut self, n: usize) -> anyhow::Result<Vec<SeenRequest>> {
        let SeenRequest { target, host, .. } = marker(n);
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let received = exchange(self.gateway, &[request.into_bytes()])?;
        let [Answer { status: 200, content }] = &answers::split(&received, |_| false)?[..] else {
            bail!(
                "unexpected response to the marker request: {:?}",
                received.bytes.escape_ascii().to_string()
            );
        };
        if self.describes_requests {
            let described = SeenRequest::parse(content)?;
            ensure!(described == marker(n), "the response to the marker request describes {described:?}");
        }
        let mut seen = Vec::new();
        self.stop.wait("the upstream server to log the marker request", WAIT_LIMIT, || {
            seen.extend(self.log.take()?);
            Ok(seen.pop_if(|last| *last == marker(n)))
        })?;
        Ok(seen)
    }
}

/// Returns `true` if the gateway is allowed to close the connection after an error response, because the
/// remainder of the body might never arrive.
fn expects_continue(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|bytes| bytes.eq_ignore_ascii_case(b"expect:"))
}

/// Checks that the upstream server saw exactly the requests of the gateway, in the same order. The upstream
/// server may have seen rejected requests too. Each request must have a response, unless `may_close` is
/// `true` and the gateway rejected an earlier request. Returns the answered requests and the number of
/// rejected requests. The answered requests do not include abandoned requests, which the gateway may log at
/// any time.
fn compare(
    parsed: &ParsedRequests,
    answers: &[Answer],
    may_close: bool,
    seen: &[SeenRequest],
) -> anyhow::Result<(Vec<SeenRequest>, usize)> {
    let (mut answered, mut rejected, mut rest) = (Vec::new(), 0, seen.iter().peekable());
    for (n, request) in parsed.complete.iter().enumerate() {
        let status = answers.get(n).map(|answer| answer.status);
        // The gateway itself answers `OPTIONS *`, because no route matches it.
        if status == Some(204) && request.0 == "OPTIONS *" {
            continue;
        }
        let arrived = rest.next_if(|seen| seen.as_parsed() == *request);
        match (status, arrived) {
            (Some(200), Some(arrived)) => answered.push(arrived.clone()),
            (Some(400..), _) => rejected += 1,
            (None, _) if may_close && rejected > 0 => rejected += 1,
            _ => bail!("{request:?} got {status:?}, the upstream server saw {seen:?}"),
        }
    }
    ensure!(rest.next().is_none(), "the upstream server saw unexpected requests: {seen:?}");
    let is_rejection = |answer: &Answer| answer.status >= 400;
    ensure!(
        !parsed.is_invalid || answers.last().is_some_and(is_rejection),
        "no error response for the malformed request"
    );
    let too_many = answers.get(parsed.complete.len()..).unwrap_or_default();
    ensure!(too_many.iter().all(is_rejection), "more responses than requests: {too_many:?}");
    Ok((answered, rejected))
}

/// Returns the marker request after case `n`, in the form in which an upstream server sees it.
fn marker(n: usize) -> SeenRequest {
    let text = |text: &str| text.to_owned();
    let (method, target, host) = (text("GET"), format!("/marker/{n}"), text("marker.example"));
    SeenRequest { status: ok(), method, target, host, content: String::new() }
}

/// Sends the pieces, shuts down the sending side, and reads until the gateway closes the connection.
fn exchange(address: SocketAddr, pieces: &[Vec<u8>]) -> anyhow::Result<Received> {
    let mut stream = TcpStream::connect(address).context("cannot connect to the gateway")?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    stream.set_write_timeout(Some(WAIT_LIMIT))?;
    stream.set_nodelay(true)?;
    for piece in pieces {
        // The write may fail, because the gateway may have rejected the request and closed the connection.
        let _rejected = stream.write_all(piece);
    }
    let _gone = stream.shutdown(Shutdown::Write);
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => Ok(Received { bytes, is_reset: false }),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Received { bytes, is_reset: true }),
        Err(error) => {
            let received = bytes.escape_ascii();
            Err(error).with_context(|| format!("the connection to the gateway failed after {received}"))
        }
    }
}

const WAIT_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares requests for `/a` and `/b` with these responses, and with the targets that the upstream
    /// server saw.
    fn compared(
        statuses: &[u16],
        may_close: bool,
        is_invalid: bool,
        upstream_targets: &str,
    ) -> Option<(usize, usize)> {
        let complete = ["/a", "/b"].map(|target| (format!("GET {target}"), Vec::new())).into();
        let answers: Vec<_> =
            statuses.iter().map(|status| Answer { status: *status, content: Vec::new() }).collect();
        let seen = |target: &str| SeenRequest { target: target.to_owned(), ..marker(0) };
        let seen: Vec<_> = upstream_targets.split_whitespace().map(seen).collect();
        let (answered, rejected) =
            compare(&ParsedRequests { complete, is_invalid }, &answers, may_close, &seen).ok()?;
        Some((answered.len(), rejected))
    }

    #[test]
    fn upstream_must_see_exactly_the_answered_requests() {
        for (statuses, may_close, is_invalid, upstream_targets, expected) in [
            (&[200, 200][..], false, false, "/a /b", Some((2, 0))),
            (&[200, 400], false, false, "/a", Some((1, 1))),
            (&[200, 400], false, false, "/a /b", Some((1, 1))),
            (&[400, 200], false, false, "/b", Some((1, 1))),
            (&[400, 200], false, false, "/a", None),
            (&[400, 200], false, false, "/b /a", None),
            (&[400, 200], false, false, "/b /b", None),
            (&[200, 200], false, false, "/a", None),
            (&[400], true, false, "", Some((0, 2))),
            (&[400], false, false, "", None),
            (&[200], true, false, "/a", None),
            (&[204, 200], true, false, "/b", None),
            (&[200, 200, 200], true, false, "/a /b", None),
            (&[200, 200, 400], false, true, "/a /b", Some((2, 0))),
            (&[200, 200], false, true, "/a /b", None),
        ] {
            let found = compared(statuses, may_close, is_invalid, upstream_targets);
            assert_eq!(found, expected, "{statuses:?} {may_close} {is_invalid} {upstream_targets}");
        }
    }
}
