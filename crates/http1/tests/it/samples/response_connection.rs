//! Samples of responses and their connection: interim responses, pipelines, reuse, tunnels (RFC 9112 §9, RFC
//! 9110 §15.2).

use thruway_http1::{Error, ResponseTo};
use thruway_testkit::transcript::Reader;

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = interim();
    samples.extend(unexpected());
    samples.extend(pipelines());
    samples.extend(tunnels());
    samples
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn interim() -> Vec<Sample> {
    let other = &[ResponseTo::Other];
    let flood = |count: usize| "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(count) + EMPTY;
    vec![
        Sample::responses(
            "100 before the response",
            other,
            format!("HTTP/1.1 100 Continue\r\n\r\n{EMPTY}"),
            &["interim 100", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "several kinds of interim responses",
            other,
            format!("HTTP/1.1 100\r\n\r\nHTTP/1.1 102 x\r\n\r\nHTTP/1.1 199 x\r\n\r\n{EMPTY}"),
            &["interim 100", "interim 102", "interim 199", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "an interim response never has content",
            other,
            format!("HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\n{EMPTY}"),
            &["interim 100", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "an interim response does not end the connection",
            other,
            format!("HTTP/1.1 100 x\r\nConnection: close\r\n\r\n{EMPTY}"),
            &["interim 100", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "an interim response to HEAD",
            &[ResponseTo::Head],
            "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            &["interim 103", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "an interim response alone",
            other,
            "HTTP/1.1 100 x\r\n\r\n",
            &["interim 100", &refused(Error::IncompleteMessage)],
        ),
        Sample::responses(
            "as many interim responses as allowed",
            other,
            flood(2),
            &["interim 103", "interim 103", "HTTP/1.1 200"],
        )
        .with(|limits| limits.interim_responses = 2),
        Sample::responses(
            "a flood of interim responses",
            other,
            flood(3),
            &["interim 103", "interim 103", &refused(Error::InterimResponsesTooMany)],
        )
        .with(|limits| limits.interim_responses = 2),
        Sample::responses(
            "interim responses are counted for each request",
            &[ResponseTo::Other; 2],
            flood(2).repeat(2),
            &["interim 103", "interim 103", "HTTP/1.1 200", "interim 103", "interim 103", "HTTP/1.1 200"],
        )
        .with(|limits| limits.interim_responses = 2),
    ]
}

fn unexpected() -> Vec<Sample> {
    let surplus = |name, first: &str| {
        Sample::responses(
            name,
            &[ResponseTo::Other],
            format!("HTTP/1.1 200 OK\r\n{first}"),
            &["HTTP/1.1 200", &refused(Error::UnexpectedMessage)],
        )
    };
    vec![
        Sample::responses(
            "a response that was not requested",
            &[],
            EMPTY,
            &[&refused(Error::UnexpectedMessage)],
        ),
        Sample::responses("a byte that was not requested", &[], "\r", &[&refused(Error::UnexpectedMessage)]),
        Sample::responses(
            "a time-out of an idle connection",
            &[],
            "HTTP/1.1 408 x\r\nConnection: close\r\n\r\n",
            &[&refused(Error::UnexpectedMessage)],
        ),
        surplus("one response too many", &format!("Content-Length: 0\r\n\r\n{EMPTY}")),
        surplus("one byte too many", "Content-Length: 0\r\n\r\na"),
        surplus("a line end too many", "Content-Length: 0\r\n\r\n\r\n"),
        surplus("a byte after the last response", "Connection: close\r\nContent-Length: 0\r\n\r\na"),
        Sample::responses(
            "content past the length",
            &[ResponseTo::Other],
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
            &["HTTP/1.1 200, 3 bytes", "content abc", "end", &refused(Error::UnexpectedMessage)],
        ),
        Sample::responses(
            "content of a response to HEAD",
            &[ResponseTo::Head],
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            &["HTTP/1.1 200", &refused(Error::UnexpectedMessage)],
        ),
        Sample::responses(
            "content of a 204",
            &[ResponseTo::Other],
            "HTTP/1.1 204 x\r\n\r\nabc",
            &["HTTP/1.1 204", &refused(Error::UnexpectedMessage)],
        ),
    ]
}

fn pipelines() -> Vec<Sample> {
    let both = &[ResponseTo::Other; 2];
    let content = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    vec![
        Sample::responses(
            "two responses",
            both,
            content.to_owned() + EMPTY,
            &["HTTP/1.1 200, 3 bytes", "content abc", "end", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "responses belong to the requests in order",
            &[ResponseTo::Head, ResponseTo::Other],
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n".to_owned() + content,
            &["HTTP/1.1 200", "HTTP/1.1 200, 3 bytes", "content abc", "end"],
        ),
        Sample::responses(
            "requests without a response after close",
            both,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            &["HTTP/1.1 200", &refused(Error::IncompleteMessage)],
        ),
        Sample::responses(
            "a response after close",
            both,
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n{EMPTY}"),
            &["HTTP/1.1 200", &refused(Error::UnexpectedMessage)],
        ),
        Sample::responses(
            "a response after HTTP/1.0",
            both,
            format!("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n{EMPTY}"),
            &["HTTP/1.0 200", &refused(Error::UnexpectedMessage)],
        ),
        Sample::responses(
            "HTTP/1.0 that is kept alive",
            both,
            format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n{EMPTY}"),
            &["HTTP/1.0 200", "HTTP/1.1 200"],
        ),
        Sample::responses(
            "all that comes until the close belongs to the first",
            both,
            format!("HTTP/1.1 200 OK\r\n\r\n{EMPTY}"),
            &[
                "HTTP/1.1 200, until close",
                r"content HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                "end by close",
            ],
        ),
    ]
}

fn tunnels() -> Vec<Sample> {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n";
    let upgrade = |name, input: String, transcript: &[&str]| {
        Sample::responses(name, &[], input, transcript)
            .read_by(Reader::Client(vec![(ResponseTo::Other, true)]))
    };
    let connect = &[ResponseTo::Connect];
    vec![
        upgrade("a requested 101", format!("{switching}\x01\x02"), &["tunnel 101", "2 unused"]),
        upgrade(
            "101 after 100",
            format!("HTTP/1.1 100 x\r\n\r\n{switching}"),
            &["interim 100", "tunnel 101"],
        ),
        upgrade("a declined upgrade", EMPTY.to_owned(), &["HTTP/1.1 200"]),
        Sample::refused_response("an unrequested 101", switching, Error::UnexpectedMessage),
        Sample::responses(
            "a tunnel for CONNECT",
            connect,
            "HTTP/1.1 200 OK\r\n\r\nabc",
            &["tunnel 200", "3 unused"],
        ),
        Sample::responses("a tunnel for any 2xx status", connect, "HTTP/1.1 299 x\r\n\r\n", &["tunnel 299"]),
        Sample::responses(
            "a tunnel ignores a length",
            connect,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
            &["tunnel 200", "3 unused"],
        ),
        Sample::responses(
            "a tunnel ignores invalid fields",
            connect,
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n",
            &["tunnel 200"],
        ),
        Sample::responses(
            "a tunnel after an interim response",
            connect,
            "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 200 x\r\n\r\n",
            &["interim 100", "tunnel 200"],
        ),
        Sample::responses("101 to CONNECT", connect, switching, &[&refused(Error::UnexpectedMessage)]),
        Sample::responses(
            "204 to CONNECT is a tunnel too",
            connect,
            "HTTP/1.1 204 x\r\n\r\nabc",
            &["tunnel 204", "3 unused"],
        ),
    ]
}
