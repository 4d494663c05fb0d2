//! Tests that the result does not depend on the pieces in which a response arrives.

use std::task::Poll;

use thruway_client::{ReadBuffers, ResponseEvent};
use thruway_message::FieldLines;
use thruway_testkit::Random;

use crate::line::{Line, context};

const RESPONSE: &str = "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\n\
    Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n20;a=b\r\n, this is all that there is here\r\n0\r\nT: 1\r\n\r\n";

const EXPECTED: &str = "103 Link;200 X Transfer-Encoding;hello, this is all that there is here;end T";

/// Reads until no more data arrives. Puts back some parts of the body, selected by `random`.
fn read(line: &mut Line, found: &mut String, random: &mut Random) {
    loop {
        let buffers = ReadBuffers::default();
        let mut poll = line.exchange.begin_poll(&buffers);
        match poll.poll_event(&mut context(), line.now) {
            Poll::Pending => return,
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Ready(Ok(event)) => match event {
                ResponseEvent::Interim(head) | ResponseEvent::Final(head, _) => {
                    found.push_str(&head.status.to_string());
                    push_names(found, head.field_lines);
                    found.push(';');
                }
                ResponseEvent::Content(content) => {
                    let taken = random.below(content.len() + 1);
                    found.push_str(str::from_utf8(&content[..taken]).unwrap());
                    let left = content.len() - taken;
                    poll.put_back(left);
                }
                ResponseEvent::End(trailers) => {
                    found.push_str(";end");
                    push_names(found, trailers);
                    return;
                }
                ResponseEvent::Tunnel(_) => panic!("no tunnel was requested"),
            },
        }
    }
}

fn push_names(found: &mut String, lines: FieldLines<'_>) {
    lines.iter().for_each(|line| found.extend([" ", line.name.as_str()]));
}

#[test]
fn events_do_not_depend_on_read_sizes_or_consumed_amounts() {
    let mut random = Random::new(1);
    for size in (1..=RESPONSE.len()).chain([usize::MAX]) {
        let mut line = Line::get();
        line.peer.limit_read_size(size);
        line.peer.send(RESPONSE);
        let mut found = String::new();
        read(&mut line, &mut found, &mut random);
        assert_eq!(found, EXPECTED, "cut into {size}");
        assert!(line.leaves_connection_reusable());
    }
}

#[test]
fn events_do_not_depend_on_when_pieces_arrive() {
    let mut random = Random::new(2);
    for _ in 0..500 {
        let mut line = Line::get();
        let (mut rest, mut found) = (RESPONSE, String::new());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.below(rest.len().min(40)) + 1);
            line.peer.send(piece);
            read(&mut line, &mut found, &mut random);
            rest = after;
        }
        assert_eq!(found, EXPECTED);
        assert!(line.leaves_connection_reusable());
    }
}

/// The connections of a thread share a read buffer. Data of one must not appear in another.
#[test]
fn alternating_connections_do_not_mix_data() {
    let mut random = Random::new(3);
    for _ in 0..100 {
        let mut lines: Vec<_> = (0..4).map(|_| (Line::get(), RESPONSE, String::new())).collect();
        while lines.iter().any(|(_, rest, _)| !rest.is_empty()) {
            let place = random.below(lines.len());
            let (line, rest, found) = &mut lines[place];
            if !rest.is_empty() {
                let (piece, after) = rest.split_at(random.below(rest.len().min(60)) + 1);
                line.peer.send(piece);
                read(line, found, &mut random);
                *rest = after;
            }
        }
        assert!(lines.iter().all(|(_, _, found)| found == EXPECTED));
    }
}
