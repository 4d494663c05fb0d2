//! Tests of damaged responses: an exchange must find the same errors as `http1`, for all sizes of reads and
//! pieces.

use std::task::Poll;

use thruway_client::{Config, Error, ReadBuffers, ResponseEvent};
use thruway_http1 as http1;
use thruway_http1::ResponseTo;
use thruway_testkit::Random;
use thruway_testkit::transcript::{Event, Fields, Reader, Transcript};

use crate::line::{Line, context};

const SAMPLES: [&str; 6] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5;a=b\r\nworld\r\n0\r\nT: 1\r\n\r\n",
    "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\nuntil the end",
    "HTTP/1.1 100 \r\n\r\nHTTP/1.1 204 No\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nsomething else",
];

/// Bytes that often break parsers.
const MARKS: &[u8] = b"\r\n\0 \t:;,0aF/\x7f\xff";

fn damaged(random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(&SAMPLES).as_bytes().to_vec();
    for _ in 0..random.below(4) {
        let place = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.insert(place, *random.pick(MARKS)),
            1 => bytes[place] = *random.pick(MARKS),
            _ => bytes.truncate(place + 1),
        }
    }
    bytes
}

/// The way in which a read ended.
#[derive(PartialEq, Eq, Debug)]
enum End {
    Complete,
    Incomplete,
    Malformed(http1::Error),
}

/// Heads with their fields, the joined body, and the end.
type Reading = (Vec<(u16, Fields)>, Vec<u8>, End);

fn read_by_http1(bytes: &[u8]) -> Reading {
    let reader = Reader::Client(vec![(ResponseTo::Other, false)]);
    let transcript = Transcript::read(&reader, Config::default().limits, [bytes]);
    let mut heads = Vec::new();
    let mut is_complete = false;
    for event in &transcript.events {
        match event {
            Event::Interim(head) => heads.push((head.status.as_u16(), head.fields.clone())),
            Event::Response(head, length) => {
                heads.push((head.status.as_u16(), head.fields.clone()));
                is_complete = *length == http1::BodyLength::NONE;
            }
            Event::EndOfContent(trailers) => {
                heads.push((0, trailers.clone()));
                is_complete = true;
            }
            Event::EndedByClose => {
                heads.push((0, Fields::new()));
                is_complete = true;
            }
            Event::Content(_) => {}
            other => panic!("{other}"),
        }
    }
    let end = match transcript.error {
        _ if is_complete => End::Complete,
        Some(http1::Error::IncompleteMessage) => End::Incomplete,
        Some(error) => End::Malformed(error),
        None => panic!("a response is expected: {transcript}"),
    };
    (heads, transcript.content(), end)
}

fn read_by_exchange(bytes: &[u8], random: &mut Random) -> Reading {
    let mut line = Line::get();
    line.peer.limit_read_size(1 + random.below(30));
    let (mut heads, mut all) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    loop {
        let buffers = ReadBuffers::default();
        let mut poll = line.exchange.begin_poll(&buffers);
        let length = match poll.poll_event(&mut context(), line.now) {
            Poll::Pending if rest.is_empty() => {
                line.peer.finish();
                continue;
            }
            Poll::Pending => {
                let (piece, after) = rest.split_at(1 + random.below(rest.len()));
                line.peer.send(piece);
                rest = after;
                continue;
            }
            Poll::Ready(Err(error)) => return (heads, all, end(error)),
            Poll::Ready(Ok(event)) => match event {
                ResponseEvent::Interim(head) => {
                    heads.push((head.status.as_u16(), fields(head.field_lines)));
                    continue;
                }
                ResponseEvent::Final(head, length) => {
                    heads.push((head.status.as_u16(), fields(head.field_lines)));
                    if length == http1::BodyLength::NONE {
                        return (heads, all, End::Complete);
                    }
                    continue;
                }
                ResponseEvent::End(trailers) => {
                    heads.push((0, fields(trailers)));
                    return (heads, all, End::Complete);
                }
                ResponseEvent::Content(content) => {
                    let taken = random.below(content.len() + 1);
                    all.extend_from_slice(&content[..taken]);
                    content.len() - taken
                }
                ResponseEvent::Tunnel(_) => panic!("no tunnel was requested"),
            },
        };
        poll.put_back(length);
    }
}

fn end(error: Error) -> End {
    match error {
        Error::HeadMalformed(rule) | Error::ContentMalformed(rule) => End::Malformed(rule),
        Error::ClosedBeforeResponse | Error::HeadIncomplete | Error::ContentIncomplete => End::Incomplete,
        other => panic!("{other:?}"),
    }
}

fn fields(lines: thruway_message::FieldLines<'_>) -> Fields {
    lines.iter().map(|line| (line.name.to_string(), line.value.as_bytes().to_vec())).collect()
}

#[test]
fn exchange_reads_damaged_responses_like_the_http1_parser() {
    let mut random = Random::new(4);
    let mut ends = [0; 3];
    for _ in 0..20_000 {
        let bytes = damaged(&mut random);
        let expected = read_by_http1(&bytes);
        let found = read_by_exchange(&bytes, &mut random);
        assert_eq!(found, expected, "{}", bytes.escape_ascii());
        ends[match expected.2 {
            End::Complete => 0,
            End::Incomplete => 1,
            End::Malformed(_) => 2,
        }] += 1;
    }
    assert!(ends.iter().all(|count| *count > 1000), "each end is common: {ends:?}");
}
