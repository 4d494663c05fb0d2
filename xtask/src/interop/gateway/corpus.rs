//! The corpus of framing tricks through the gateway: an upstream sees the requests that the gateway saw, and
//! no others.
//!
//! Each case has its own connection. Another connection then sends a request that ends the log of the
//! upstream. The parser of the gateway tells the requests that the gateway sees; the log and the responses
//! tell the requests that the upstream sees.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use thruway_testkit::request_parser::{ParsedRequests, parse_requests};
use thruway_testkit::{Random, corpus};

use super::answers::{self, Answer, Received};
use super::seen::{Log, Seen, ok};
use crate::stop::Stop;

/// A gateway before an upstream.
pub(super) struct Place<'p> {
    pub(super) gateway: SocketAddr,
    pub(super) log: Log<'p>,
    /// `true` if responses of the upstream describe the requests.
    pub(super) tells: bool,
    pub(super) stop: &'p Stop,
}

/// The requests that passed.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) cases: usize,
    /// The requests that the upstream saw and answered, those after each case included.
    pub(super) seen: Vec<Seen>,
    /// Requests that were refused though the gateway's parser takes them, and those behind them.
    pub(super) refused: usize,
}

/// A case, in the pieces in which it is sent.
pub(crate) type Pieces = Vec<Vec<u8>>;

/// Returns our own cases: those that have fooled other gateways, and this many variations of them.
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

impl Place<'_> {
    /// Sends all cases.
    ///
    /// # Errors
    /// The first case in which gateway and upstream differ, or no more than `pass_min` requests passed: the
    /// cases are worth nothing then.
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
        ensure!(passed > pass_min, "only {passed} of the requests of {} cases passed", tally.cases);
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
        let seen = self.seen_up_to_the_mark(tally.cases)?;
        let (answered, refused) = compare(parsed, &answers, asks_to_continue(&pieces.concat()), &seen)?;
        if self.tells {
            let told = answers.iter().zip(&parsed.complete).enumerate();
            for (_, (answer, asked)) in told.filter(|(n, (answer, _))| answer.status == 200 && !is_head(*n)) {
                let told = Seen::parse(&answer.content)?.as_parsed();
                ensure!(told == *asked, "the answer to {asked:?} belongs to {told:?}");
            }
        }
        tally.refused += refused;
        tally.seen.extend(answered);
        tally.seen.push(mark(tally.cases));
        Ok(())
    }

    /// Returns the requests that the upstream saw before a request that is sent now.
    fn seen_up_to_the_mark(&mut self, n: usize) -> anyhow::Result<Vec<Seen>> {
        let Seen { target, host, .. } = mark(n);
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let received = exchange(self.gateway, &[request.into_bytes()])?;
        let [Answer { status: 200, content }] = &answers::split(&received, |_| false)?[..] else {
            bail!("the request after it was answered {:?}", received.bytes.escape_ascii().to_string());
        };
        if self.tells {
            let told = Seen::parse(content)?;
            ensure!(told == mark(n), "the request after it got the answer to {told:?}");
        }
        let mut seen = Vec::new();
        self.stop.wait("the upstream to log what it was asked", PATIENCE, || {
            seen.extend(self.log.take()?);
            Ok(seen.pop_if(|last| *last == mark(n)))
        })?;
        Ok(seen)
    }
}

/// Returns `true` if the gateway may leave this client without responses after a refusal, because the client
/// may not send the rest of the content.
fn asks_to_continue(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|bytes| bytes.eq_ignore_ascii_case(b"expect:"))
}

/// Checks that the upstream saw the requests of the gateway: in their order, none twice, and no others. A
/// refused request may be among them or not. Each request has a response, unless the gateway `may_close` the
/// connection after a refusal. Returns the requests that the upstream answered: the gateway may log an
/// abandoned request at any time. Returns the number of refused requests too.
fn compare(
    parsed: &ParsedRequests,
    answers: &[Answer],
    may_close: bool,
    seen: &[Seen],
) -> anyhow::Result<(Vec<Seen>, usize)> {
    let (mut answered, mut refused, mut rest) = (Vec::new(), 0, seen.iter().peekable());
    for (n, request) in parsed.complete.iter().enumerate() {
        let status = answers.get(n).map(|answer| answer.status);
        // `OPTIONS *` asks the server that gets it, and no route takes it.
        if status == Some(204) && request.0 == "OPTIONS *" {
            continue;
        }
        let arrived = rest.next_if(|seen| seen.as_parsed() == *request);
        match (status, arrived) {
            (Some(200), Some(arrived)) => answered.push(arrived.clone()),
            (Some(400..), _) => refused += 1,
            (None, _) if may_close && refused > 0 => refused += 1,
            _ => bail!("{request:?} was answered {status:?}, the upstream saw {seen:?}"),
        }
    }
    ensure!(rest.next().is_none(), "the upstream saw {seen:?}");
    let is_refusal = |answer: &Answer| answer.status >= 400;
    ensure!(!parsed.is_invalid || answers.last().is_some_and(is_refusal), "no response reports the fault");
    let too_many = answers.get(parsed.complete.len()..).unwrap_or_default();
    ensure!(too_many.iter().all(is_refusal), "more answers than requests: {too_many:?}");
    Ok((answered, refused))
}

/// The request after case `n`, as an upstream sees it.
fn mark(n: usize) -> Seen {
    let text = |text: &str| text.to_owned();
    let (method, target, host) = (text("GET"), format!("/mark/{n}"), text("mark.example"));
    Seen { status: ok(), method, target, host, content: String::new() }
}

/// Sends the pieces, ends the sending side, and reads until the gateway ends the connection.
fn exchange(address: SocketAddr, pieces: &[Vec<u8>]) -> anyhow::Result<Received> {
    let mut stream = TcpStream::connect(address).context("the gateway takes no connection")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    for piece in pieces {
        // The write may fail, because the gateway may have refused the request already.
        let _refused = stream.write_all(piece);
    }
    let _gone = stream.shutdown(Shutdown::Write);
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => Ok(Received { bytes, is_reset: false }),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Received { bytes, is_reset: true }),
        Err(error) => {
            let received = bytes.escape_ascii();
            Err(error).with_context(|| format!("the gateway broke off after {received}"))
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares requests for `/a` and `/b` with these answers, and the targets that an upstream saw.
    fn compared(statuses: &[u16], may_close: bool, is_invalid: bool, saw: &str) -> Option<(usize, usize)> {
        let complete = ["/a", "/b"].map(|target| (format!("GET {target}"), Vec::new())).into();
        let answers: Vec<_> =
            statuses.iter().map(|status| Answer { status: *status, content: Vec::new() }).collect();
        let seen = |target: &str| Seen { target: target.to_owned(), ..mark(0) };
        let seen: Vec<_> = saw.split_whitespace().map(seen).collect();
        let (answered, refused) =
            compare(&ParsedRequests { complete, is_invalid }, &answers, may_close, &seen).ok()?;
        Some((answered.len(), refused))
    }

    #[test]
    fn an_upstream_sees_the_requests_with_answers_and_nothing_else() {
        for (statuses, may_close, is_invalid, saw, expected) in [
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
            let found = compared(statuses, may_close, is_invalid, saw);
            assert_eq!(found, expected, "{statuses:?} {may_close} {is_invalid} {saw}");
        }
    }
}
