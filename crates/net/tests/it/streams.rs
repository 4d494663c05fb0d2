//! Tests of data in both directions.

use std::io::{ErrorKind, Seek, Write};
use std::task::Poll;

use thruway_net::Transport;
use thruway_testkit::CertificateAuthority;

use crate::ends::{RustlsEnd, Tls, accepted, connected, cx, numbered, read, write};

fn both(authority: &CertificateAuthority) -> [(Tls, RustlsEnd); 2] {
    [accepted(authority), connected(authority)]
}

#[test]
fn received_data_does_not_depend_on_read_sizes() {
    let authority = CertificateAuthority::new();
    for cut in [1, 2, 5, 6, 700, usize::MAX] {
        for buffer_bytes in [1, 100, 64 << 10] {
            for (mut stream, mut other) in both(&authority) {
                let content = numbered(if cut < 10 || buffer_bytes == 1 { 2_000 } else { 50_000 });
                other.peer.limit_read_size(cut);
                other.write(&content);
                assert!(read(&mut stream, buffer_bytes) == content, "{cut} {buffer_bytes}");
            }
        }
    }
}

#[test]
fn sent_data_is_unchanged_with_short_writes() {
    let authority = CertificateAuthority::new();
    for room in [1, 22, 5_000, 20_000] {
        for (mut stream, mut other) in both(&authority) {
            let content = numbered(if room < 1000 { 3_000 } else { 100_000 });
            let mut bytes = Vec::new();
            let mut written = 0;
            other.peer.set_receive_capacity(room);
            while written < content.len() {
                // Retries with more data, as real connections do.
                let end = content.len().min(written + 60_000);
                written += write(&mut stream, &[&content[written..end]]);
                bytes.extend(other.peer.received());
                other.peer.add_receive_capacity(room);
            }
            bytes.extend(other.peer.received());
            let mut left = &bytes[..];
            while !left.is_empty() {
                other.tls.read_tls(&mut left).unwrap();
                other.tls.process_new_packets().unwrap();
                let mut piece = vec![0; 1 << 16];
                while let Ok(read) = std::io::Read::read(&mut other.tls.reader(), &mut piece) {
                    other.received.extend_from_slice(&piece[..read]);
                }
            }
            assert!(other.received == content, "{room}");
        }
    }
}

#[test]
fn unsent_bytes_do_not_count_as_written() {
    let (mut stream, other) = accepted(&CertificateAuthority::new());
    other.peer.set_receive_capacity(10);
    let slices = [std::io::IoSlice::new(b"hello")];
    assert!(stream.poll_write(&mut cx(), &slices).is_pending());
    assert!(stream.poll_flush(&mut cx()).is_pending());
    other.peer.add_receive_capacity(1000);
    assert!(matches!(stream.poll_write(&mut cx(), &slices), Poll::Ready(Ok(5))));
    assert!(stream.poll_flush(&mut cx()).is_ready());
}

/// Without this information, a request that was partly sent was once sent again.
#[test]
fn partly_sent_write_is_reported_until_it_completes() {
    let slices = [std::io::IoSlice::new(b"hello")];
    for (room, has_left) in [(0, false), (10, true)] {
        let (mut stream, other) = accepted(&CertificateAuthority::new());
        other.peer.set_receive_capacity(room);
        assert!(!stream.has_written_part());
        assert!(stream.poll_write(&mut cx(), &slices).is_pending());
        assert_eq!(stream.has_written_part(), has_left);
        // A read sends the rest in the meantime.
        other.peer.add_receive_capacity(1000);
        assert!(stream.poll_read(&mut cx(), &mut [0]).is_pending());
        assert!(stream.has_written_part());
        assert!(matches!(stream.poll_write(&mut cx(), &slices), Poll::Ready(Ok(5))));
        assert!(!stream.has_written_part());
    }
}

#[test]
fn head_and_body_use_one_record_and_one_write() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.pump().unwrap();
    other.records.clear();
    let before = other.peer.writes();
    let (head, content) = (numbered(150), numbered(4096));
    assert_eq!(write(&mut stream, &[&head, b"", &content]), 150 + 4096);
    assert_eq!(other.peer.writes(), before + 1);
    other.pump().unwrap();
    // TLS 1.3 adds one byte for the type and 16 bytes for the tag.
    assert_eq!(other.records, [150 + 4096 + 17]);
    assert_eq!(other.received, [head, content].concat());
}

#[test]
fn large_body_fills_records_in_one_write() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.pump().unwrap();
    other.records.clear();
    let before = other.peer.writes();
    let (head, content) = (numbered(100), numbered(100_000));
    assert_eq!(write(&mut stream, &[&head, &content]), 3 << 14);
    assert_eq!(other.peer.writes(), before + 1);
    other.pump().unwrap();
    assert_eq!(other.records, [(16 << 10) + 17; 3]);
}

#[test]
fn session_tickets_are_sent_with_the_first_response() {
    let authority = CertificateAuthority::new();
    let (near, far) = thruway_testkit::pipe();
    let config = std::sync::Arc::new(crate::ends::client_config(&authority));
    let mut other = RustlsEnd::client(near, &config, "a.example");
    let mut accepting = crate::ends::Scene::new().accept(far, &crate::ends::acceptor(&authority));
    let (stream, _) = crate::ends::drive_handshake(&mut accepting, &mut other);
    let mut stream = stream.map_err(|(_, error)| error).unwrap();
    let before = other.peer.writes();
    write(&mut stream, &[b"hello"]);
    assert_eq!(other.peer.writes(), before + 1);
    other.pump().unwrap();
    assert_eq!((&*other.received, other.tls.is_handshaking()), (&b"hello"[..], false));
}

#[test]
fn files_are_sent_from_any_offset() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    let content = numbered(200_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    file.rewind().unwrap();
    let mut offset = 3;
    other.peer.set_receive_capacity(30_000);
    while offset < 150_000 {
        let length = 150_000 - offset;
        match stream.poll_send_file(&mut cx(), &file, offset as u64, length) {
            Poll::Ready(sent) => offset += sent.unwrap(),
            Poll::Pending => {
                other.pump().unwrap();
                other.peer.add_receive_capacity(30_000);
            }
        }
    }
    other.pump().unwrap();
    assert!(other.received == content[3..150_000]);
    assert!(matches!(stream.poll_send_file(&mut cx(), &file, 200_000, 1), Poll::Ready(Ok(0))));
}

#[test]
fn close_notify_is_received_and_sent() {
    let authority = CertificateAuthority::new();
    for (mut stream, mut other) in both(&authority) {
        other.write(b"last");
        other.tls.send_close_notify();
        other.send();
        other.peer.finish();
        assert_eq!(read(&mut stream, 100), b"last");
        assert!(matches!(stream.poll_read(&mut cx(), &mut [0; 9]), Poll::Ready(Ok(0))));
        // The other direction stays open.
        assert_eq!(write(&mut stream, &[b"answer"]), 6);
        assert!(stream.poll_close(&mut cx()).is_ready());
        assert!(stream.poll_close(&mut cx()).is_ready());
        other.pump().unwrap();
        assert_eq!(other.received, b"answer");
        assert!(other.tls.process_new_packets().unwrap().peer_has_closed());
        assert!(!other.peer.is_finished());
        assert!(stream.poll_shutdown(&mut cx()).is_ready());
        assert!(other.peer.is_finished());
    }
}

/// An end that was found during a write was once forgotten. It then looked like a missing `close_notify`.
#[test]
fn close_notify_before_a_write_is_not_lost() {
    let authority = CertificateAuthority::new();
    for (mut stream, mut other) in both(&authority) {
        other.write(b"hello");
        other.write(b" again");
        other.tls.send_close_notify();
        other.send();
        other.peer.finish();
        let mut buffer = [0; 5];
        assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(5))));
        assert_eq!(write(&mut stream, &[b"answer"]), 6);
        assert_eq!(read(&mut stream, 100), b" again");
        assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(0))));
    }
}

#[test]
fn close_notify_found_during_a_send_is_not_lost() {
    // The end came after a record that filled the reader's buffer. The next send decrypted it, and later
    // reads waited forever.
    let authority = CertificateAuthority::new();
    let send: [fn(&mut Tls); 2] = [
        |stream| assert_eq!(write(stream, &[b"answer"]), 6),
        |stream| assert!(stream.poll_close(&mut cx()).is_ready()),
    ];
    for send in send {
        for (mut stream, mut other) in both(&authority) {
            other.tls.writer().write_all(&numbered(16 << 10)).unwrap();
            other.tls.send_close_notify();
            other.send();
            let mut buffer = vec![0; 16 << 10];
            assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(16_384))));
            send(&mut stream);
            assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(0))));
        }
    }
}

#[test]
fn connection_without_close_notify_ends_with_an_error() {
    let authority = CertificateAuthority::new();
    for (mut stream, mut other) in both(&authority) {
        other.write(b"not all");
        other.peer.finish();
        let mut buffer = [0; 100];
        assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(7))));
        let Poll::Ready(Err(error)) = stream.poll_read(&mut cx(), &mut buffer) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let Poll::Ready(Err(error)) = stream.poll_read(&mut cx(), &mut buffer) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    }
}

#[test]
fn discarding_unsent_bytes_sends_no_close_notify() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.peer.set_receive_capacity(10);
    write(&mut stream, &[b"half of it"]);
    stream.discard_unsent();
    other.peer.add_receive_capacity(1000);
    assert!(stream.poll_close(&mut cx()).is_ready());
    assert!(other.peer.is_unsent_discarded());
    other.peer.received();
    other.pump().unwrap();
    assert!(stream.poll_write(&mut cx(), &[std::io::IoSlice::new(b"x")]).is_ready());
    assert!(other.received.is_empty());
}

#[test]
fn key_update_from_the_peer_is_handled() {
    let authority = CertificateAuthority::new();
    for (mut stream, mut other) in both(&authority) {
        other.tls.refresh_traffic_keys().unwrap();
        other.write(b"under new keys");
        assert_eq!(read(&mut stream, 100), b"under new keys");
        write(&mut stream, &[b"so is this"]);
        other.pump().unwrap();
        assert_eq!(other.received, b"so is this");
    }
}

#[test]
fn session_tickets_do_not_make_a_connection_readable() {
    let (mut stream, mut other) = connected(&CertificateAuthority::new());
    // The server's tickets have arrived by now.
    other.pump().unwrap();
    assert!(stream.poll_read(&mut cx(), &mut [0]).is_pending());
}
