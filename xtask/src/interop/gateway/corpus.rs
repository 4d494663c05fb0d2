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
use thruway_testkit::request_parser::{ParsedRequest, ParsedRequests, parse_requests};
use thruway_testkit::{Random, corpus};

use super::answers::{self, Answer, Received};
use super::seen::{Log, Seen};
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

/// The cases that are sent.
pub(crate) enum Cases {
    /// Our own: cases that have fooled other gateways, and this many variations of them.
    Own(usize),
    /// Payloads of an outside suite, each in the pieces in which it is sent.
    Payloads(Vec<Vec<Vec<u8>>>),
}

impl Place<'_> {
    /// Sends all cases.
    ///
    /// # Errors
    /// The first case in which gateway and upstream differ, or too few requests passed for the cases to be
    /// worth something.
    pub(super) fn check_all(&mut self, cases: &Cases) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let (generated, pass_min) = match cases {
            Cases::Own(generated) => {
                for lines in corpus::AMBIGUOUS_FRAMING {
                    let case = format!("POST /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n5\r\nGET /x\r\n0\r\n\r\n");
                    self.check(&[case.as_bytes()], &mut tally)?;
                }
                let mut random = Random::new(SEED);
                for _ in 0..*generated {
                    let case = corpus::random_requests(&mut random);
                    let (first, rest) = case.split_at(random.below(case.len()));
                    self.check(&[first, rest], &mut tally)?;
                }
                (*generated, generated / 4)
            }
            Cases::Payloads(payloads) => {
                for pieces in payloads {
                    let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
                    self.check(&pieces, &mut tally)?;
                }
                // Most of them are malformed.
                (payloads.len(), payloads.len() / 10)
            }
        };
        let passed = tally.seen.len() - tally.cases;
        ensure!(passed > pass_min, "only {passed} of the requests of {generated} cases passed");
        Ok(tally)
    }

    fn check(&mut self, pieces: &[&[u8]], tally: &mut Tally) -> anyhow::Result<()> {
        self.stop.check()?;
        let bytes = &pieces.concat();
        let parsed = parse_requests(bytes);
        tally.cases += 1;
        let result = self.compare(pieces, &parsed, tally);
        result.with_context(|| {
            format!("case {}: {}\nthe gateway saw {:?}", tally.cases, bytes.escape_ascii(), parsed.complete)
        })
    }

    fn compare(
        &mut self,
        pieces: &[&[u8]],
        parsed: &ParsedRequests,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let received = exchange(self.gateway, pieces)?;
        let is_to_head =
            |n: usize| parsed.complete.get(n).is_some_and(|(control, _)| control.starts_with("HEAD "));
        let answers = answers::split(&received, is_to_head)?;
        let seen = self.seen_up_to_the_mark(tally.cases)?;
        let arrivals = arrivals(parsed, &answers, asks_to_continue(&pieces.concat()))?;
        let as_parsed: Vec<_> = seen.iter().map(Seen::as_parsed).collect();
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        let Some(which) = which_were_seen(&parsed.complete, &arrivals, &as_parsed) else {
            bail!("the upstream saw {as_parsed:?}, the client was answered {statuses:?}");
        };
        if self.tells {
            let told = answers.iter().zip(&parsed.complete).filter(|(answer, _)| answer.status == 200);
            for (answer, asked) in told.filter(|(_, (control, _))| !control.starts_with("HEAD ")) {
                let told = Seen::parse(&answer.content)?.as_parsed();
                ensure!(told == *asked, "the answer to {asked:?} belongs to {told:?}");
            }
        }
        tally.refused += arrivals.iter().filter(|arrival| **arrival == Arrival::Possible).count();
        // The gateway may log an abandoned request at any time.
        let is_certain = |(request, _): &(usize, Seen)| arrivals[*request] == Arrival::Certain;
        tally.seen.extend(which.into_iter().zip(seen).filter(is_certain).map(|(_, seen)| seen));
        tally.seen.push(mark(tally.cases));
        Ok(())
    }

    /// Returns the requests that the upstream saw before a request that is sent now.
    fn seen_up_to_the_mark(&mut self, n: usize) -> anyhow::Result<Vec<Seen>> {
        let Seen { target, host, .. } = mark(n);
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let received = exchange(self.gateway, &[request.as_bytes()])?;
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

/// The arrival of a request at the upstream, by its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    /// The upstream answered it.
    Certain,
    /// The request was refused, or follows a refused request with `Expect`: the gateway does not go on.
    Possible,
    /// The gateway answered it: `OPTIONS *` asks the server that gets it, and no route takes it.
    Never,
}

/// Returns `true` if the gateway may leave this client without responses after a refusal, because the client
/// may not send the rest of the content.
fn asks_to_continue(bytes: &[u8]) -> bool {
    bytes.windows(EXPECT.len()).any(|bytes| bytes.eq_ignore_ascii_case(EXPECT))
}

/// Derives the arrival of each request from the responses. Each has a response, unless the gateway
/// `may_close` the connection after a refusal.
fn arrivals(parsed: &ParsedRequests, answers: &[Answer], may_close: bool) -> anyhow::Result<Vec<Arrival>> {
    let mut arrivals = Vec::new();
    for (n, request) in parsed.complete.iter().enumerate() {
        arrivals.push(match answers.get(n).map(|answer| answer.status) {
            Some(200) => Arrival::Certain,
            Some(204) if request.0 == "OPTIONS *" => Arrival::Never,
            Some(400..) => Arrival::Possible,
            None if may_close && arrivals.contains(&Arrival::Possible) => Arrival::Possible,
            other => bail!("{request:?} was answered {other:?}"),
        });
    }
    let is_refusal = |answer: &Answer| answer.status >= 400;
    ensure!(!parsed.is_invalid || answers.last().is_some_and(is_refusal), "no response reports the fault");
    let too_many = answers.get(parsed.complete.len()..).unwrap_or_default();
    ensure!(too_many.iter().all(is_refusal), "more answers than requests: {too_many:?}");
    Ok(arrivals)
}

/// Which of the requests an upstream saw: in their order, none twice, and no others; `None` if that is not
/// so.
fn which_were_seen(
    requests: &[ParsedRequest],
    arrivals: &[Arrival],
    seen: &[ParsedRequest],
) -> Option<Vec<usize>> {
    let (mut which, mut seen) = (Vec::new(), seen.iter().peekable());
    for (n, request) in requests.iter().enumerate() {
        match arrivals[n] {
            Arrival::Never => {}
            _ if seen.next_if(|seen| *seen == request).is_some() => which.push(n),
            Arrival::Possible => {}
            Arrival::Certain => return None,
        }
    }
    seen.next().is_none().then_some(which)
}

/// The request after case `n`, as an upstream sees it.
fn mark(n: usize) -> Seen {
    let text = |text: &str| text.to_owned();
    Seen { method: text("GET"), target: format!("/mark/{n}"), host: text("mark.example"), content: text("") }
}

/// Sends the pieces, ends the sending side, and reads until the gateway ends the connection.
fn exchange(address: SocketAddr, pieces: &[&[u8]]) -> anyhow::Result<Received> {
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

const EXPECT: &[u8] = b"expect:";

const PATIENCE: Duration = Duration::from_secs(10);

const SEED: u64 = 9112;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Answer {
        Answer { status, content: Vec::new() }
    }

    #[test]
    fn what_was_answered_must_have_arrived() {
        use Arrival::{Certain, Possible};
        let of = |statuses: &[u16], may_close| {
            let complete = vec![("GET /".to_owned(), Vec::new()); 2];
            let answers: Vec<_> = statuses.iter().copied().map(answer).collect();
            arrivals(&ParsedRequests { complete, is_invalid: false }, &answers, may_close).ok()
        };
        assert_eq!(of(&[200, 200], false), Some(vec![Certain, Certain]));
        assert_eq!(of(&[200, 400], false), Some(vec![Certain, Possible]));
        assert_eq!(of(&[400], true), Some(vec![Possible, Possible]));
        assert_eq!((of(&[400], false), of(&[200], true)), (None, None));
        assert_eq!((of(&[200, 200, 200], true), of(&[204], true)), (None, None));
    }

    #[test]
    fn an_upstream_sees_what_must_arrive_and_nothing_else() {
        let request = |target: &str| (format!("GET {target}"), Vec::new());
        let both = [request("/a"), request("/b")];
        let arrivals = [Arrival::Possible, Arrival::Certain];
        let which = |seen: &[ParsedRequest]| which_were_seen(&both, &arrivals, seen);
        assert_eq!(which(&both), Some(vec![0, 1]));
        assert_eq!(which(&both[1..]), Some(vec![1]));
        assert_eq!(which(&both[..1]), None);
        assert_eq!(which(&[request("/b"), request("/a")]), None);
        assert_eq!(which(&[request("/b"), request("/b")]), None);
        assert_eq!(which_were_seen(&both[..1], &[Arrival::Never], &both[..1]), None);
    }

    #[test]
    fn what_is_faulty_must_be_refused() {
        let parsed = ParsedRequests { complete: Vec::new(), is_invalid: true };
        assert!(arrivals(&parsed, &[], true).is_err());
        assert_eq!(arrivals(&parsed, &[answer(400)], false).unwrap(), []);
    }
}
