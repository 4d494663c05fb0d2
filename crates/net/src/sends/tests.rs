//! Tests of streams with a batch and without, over real sockets.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{spawn_local, yield_now};
use tokio::time::timeout;

use super::batch::{SEND_BYTES_MAX, SENDS_MAX, unsent_sockets};
use crate::address::ClientAddr;
use crate::stream::Stream;
use crate::transport::Transport;

/// Runs `scenario` on the current thread like a worker, with a batch or without.
fn run<F: Future<Output = ()> + 'static>(is_batching: bool, scenario: impl FnOnce() -> F) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async {
        if is_batching {
            crate::spawn(super::begin().unwrap());
            yield_now().await;
        }
        scenario().await;
    });
    super::end();
}

/// Runs `scenario` with a batch and without.
fn run_both<F: Future<Output = ()> + 'static>(scenario: impl Fn() -> F) {
    run(true, &scenario);
    run(false, &scenario);
}

/// Returns a stream and its peer, which does not block.
fn pair() -> (Stream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (Stream::accepted(near.into(), ClientAddr::Unix), far)
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(bytes)])).await
}

/// Returns the bytes that have arrived, and `true` if the end has arrived too.
fn arrived(mut far: &UnixStream) -> (Vec<u8>, bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match far.read(&mut buffer) {
            Ok(0) => return (bytes, true),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (bytes, false),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writes pieces until the socket takes no more. Each piece has different bytes. Returns the written bytes.
async fn fill(stream: &mut Stream) -> Vec<u8> {
    let mut written = Vec::new();
    for n in (0..=250).cycle().take(10_000) {
        let piece = vec![n; SEND_BYTES_MAX];
        let mut outcome = Poll::Pending;
        poll_fn(|cx| {
            outcome = stream.poll_write(cx, &[IoSlice::new(&piece)]);
            Poll::Ready(())
        })
        .await;
        match outcome {
            Poll::Ready(count) => written.extend_from_slice(&piece[..count.unwrap()]),
            Poll::Pending => return written,
        }
        yield_now().await;
    }
    panic!("the socket never stops taking data");
}

/// Reads until `count` bytes have arrived.
async fn arrive(far: &UnixStream, count: usize) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        let (more, is_end) = arrived(far);
        bytes.extend(more);
        if bytes.len() >= count || is_end {
            return (bytes, is_end);
        }
        yield_now().await;
    }
}

#[test]
fn writes_of_all_streams_are_sent_after_all_tasks_have_run() {
    run(true, || async {
        let (mut one, far_one) = pair();
        let (mut other, far_other) = pair();
        assert_eq!(write(&mut one, b"one").await.unwrap(), 3);
        assert_eq!(write(&mut other, b"other").await.unwrap(), 5);
        assert_eq!((arrived(&far_one).0, arrived(&far_other).0), (vec![], vec![]));
        yield_now().await;
        assert_eq!((arrived(&far_one).0, arrived(&far_other).0), (b"one".to_vec(), b"other".to_vec()));
    });
}

#[test]
fn full_batch_is_sent_at_once() {
    run(true, || async {
        let mut pairs: Vec<_> = (0..SENDS_MAX).map(|_| pair()).collect();
        for (near, _) in &mut pairs {
            write(near, b"x").await.unwrap();
        }
        assert!(pairs.iter().all(|(_, far)| arrived(far).0 == b"x"));
    });
}

#[test]
fn order_is_kept_for_pieces_of_any_size() {
    run_both(|| async {
        let (mut near, far) = pair();
        let pieces = [vec![1; 10], vec![2; SEND_BYTES_MAX + 1], vec![3; SEND_BYTES_MAX], vec![4; 1]];
        for piece in &pieces {
            assert_eq!(write(&mut near, piece).await.unwrap(), piece.len());
        }
        let all = pieces.concat();
        assert!(arrive(&far, all.len()).await.0 == all);
    });
}

#[test]
fn bytes_for_a_full_socket_are_sent_later() {
    run_both(|| async {
        let (mut near, far) = pair();
        let written = fill(&mut near).await;
        assert!(arrive(&far, written.len()).await.0 == written);
        write(&mut near, b"more").await.unwrap();
        assert_eq!(arrive(&far, 4).await, (b"more".to_vec(), false));
    });
}

/// A single send bypasses the ring. Two sends use it.
#[test]
fn bytes_for_two_full_sockets_are_sent_later() {
    run(true, || async {
        let (mut one, far_one) = pair();
        let (mut other, far_other) = pair();
        let (written, other_written) = tokio::join!(fill(&mut one), fill(&mut other));
        assert!(arrive(&far_one, written.len()).await.0 == written);
        assert!(arrive(&far_other, other_written.len()).await.0 == other_written);
    });
}

/// Regression test: the task that sends the rest of a batch replaced the waker of a task that waited to write.
#[test]
fn waiting_write_continues_after_bytes_of_the_batch_were_sent() {
    run(true, || async {
        let (mut stream, far) = pair();
        let (small, large) = (vec![1; 16], vec![2; 64 << 10]);
        while send(&stream, &large, SendFlags::DONTWAIT).is_ok() {}
        let mut is_queued = false;
        let writer = spawn_local(poll_fn(move |cx| {
            let has_written = stream.poll_write(cx, &[IoSlice::new(&large)]).is_ready();
            if is_queued {
                return if has_written { Poll::Ready(()) } else { Poll::Pending };
            }
            is_queued = stream.poll_write(cx, &[IoSlice::new(&small)]).is_ready();
            assert!(is_queued && !has_written, "the batch takes the small write, but the socket is full");
            Poll::Pending
        }));
        let is_unsent = async {
            while unsent_sockets() == 0 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), is_unsent).await.expect("the socket does not take the batch");
        // The sender must wait for the socket before the peer reads.
        yield_now().await;
        let read = async {
            while !writer.is_finished() {
                arrived(&far);
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), read).await.expect("the writer is woken");
    });
}

#[test]
fn bytes_for_a_full_socket_are_sent_after_the_stream_is_dropped() {
    run_both(|| async {
        let (mut near, far) = pair();
        let written = fill(&mut near).await;
        drop(near);
        assert!(arrive(&far, usize::MAX).await == (written, true));
        assert_eq!(unsent_sockets(), 0);
    });
}

#[test]
fn bytes_are_sent_if_the_stream_is_dropped_at_once() {
    run_both(|| async {
        let (mut near, far) = pair();
        write(&mut near, b"farewell").await.unwrap();
        drop(near);
        yield_now().await;
        assert_eq!(arrived(&far), (b"farewell".to_vec(), true));
    });
}

#[test]
fn shutdown_follows_the_written_bytes() {
    run_both(|| async {
        let (mut near, far) = pair();
        write(&mut near, b"last").await.unwrap();
        poll_fn(|cx| near.poll_shutdown(cx)).await.unwrap();
        assert_eq!(arrived(&far), (b"last".to_vec(), true));
    });
}

#[test]
fn write_after_the_peer_closed_returns_broken_pipe() {
    run(true, || async {
        for count in [1, 2] {
            let mut streams: Vec<_> = (0..count).map(|_| pair().0).collect();
            for near in &mut streams {
                assert_eq!(write(near, b"lost").await.unwrap(), 4);
            }
            yield_now().await;
            for near in &mut streams {
                assert_eq!(write(near, b"lost").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
                assert!(poll_fn(|cx| near.poll_shutdown(cx)).await.is_err());
            }
        }
    });
}

#[test]
fn discarding_unsent_bytes_resets_the_connection() {
    run_both(|| async {
        let (mut near, mut far) = tcp_pair();
        fill(&mut near).await;
        near.discard_unsent();
        drop(near);
        let mut buffer = [0; 4096];
        loop {
            match far.read(&mut buffer) {
                Ok(0) => panic!("the aborted stream looks complete"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now().await,
                Err(error) => break assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    });
}

/// A failure of the ring leaves the fate of its bytes unknown. Connections with possibly lost bytes end.
/// Other connections continue without a batch.
#[test]
fn ring_failure_ends_only_connections_with_lost_bytes() {
    run(true, || async {
        let mut lost = [pair(), pair()];
        let (mut other, far_other) = pair();
        super::batch::break_down();
        for (near, _) in &mut lost {
            assert_eq!(write(near, b"lost").await.unwrap(), 4);
        }
        yield_now().await;
        assert!(super::batch::BATCH.with_borrow(Option::is_none), "a failed batch is not used again");
        for (near, far) in &mut lost {
            let error = write(near, b"more").await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::CANCELED.raw_os_error()));
            assert_eq!(
                poll_fn(|cx| near.poll_read(cx, &mut [0])).await.unwrap(),
                0,
                "the reader sees the end"
            );
            assert_eq!(arrived(far), (vec![], false));
        }
        write(&mut other, b"sent").await.unwrap();
        assert_eq!(arrived(&far_other).0, b"sent");
    });
}

/// Otherwise a peer that does not read would keep its socket forever, and would block a drain.
#[test]
fn unread_bytes_of_a_dropped_stream_are_discarded_after_a_stall() {
    run(true, || async {
        let (mut near, mut far) = tcp_pair();
        fill(&mut near).await;
        yield_now().await;
        drop(near);
        assert_eq!(unsent_sockets(), 1, "a drain waits for the socket");
        poll_fn(|cx| super::poll_all_sent(cx)).await;
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

/// The owner of a stream has its own deadlines.
#[test]
fn unread_bytes_are_kept_while_the_stream_has_an_owner() {
    run(true, || async {
        let (mut near, far) = tcp_pair();
        let written = fill(&mut near).await;
        tokio::time::sleep(super::batch::STALL * 3).await;
        assert_eq!(unsent_sockets(), 1);
        far.set_nonblocking(false).unwrap();
        let reader = std::thread::spawn(move || io::copy(&mut &far, &mut io::sink()).unwrap());
        poll_fn(|cx| near.poll_flush(cx)).await.unwrap();
        drop(near);
        assert_eq!(reader.join().unwrap(), written.len() as u64);
    });
}

/// Returns a TCP stream and its peer.
fn tcp_pair() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, address) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (Stream::accepted(near.into(), ClientAddr::Tcp(address)), far)
}
