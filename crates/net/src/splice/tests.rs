//! Tests with a pair of sockets on each side of a pipe.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{self, Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, Waker};
use std::thread;

use socket2::SockRef;
use tokio::runtime::Builder;

use super::flow::{BUFFER_BYTES, Flow, Storage};
use super::pipe::Pipe;
use super::pool::{PIPES_KEPT, PIPES_MAX, faults};
use crate::address::ClientAddr;
use crate::buffers::PooledBuffer;
use crate::stream::Stream;
use crate::transport::Transport;

/// Runs `test` with a reactor on a new thread, which has a separate pool of pipes.
fn with_reactor<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send) {
    thread::scope(|scope| {
        scope.spawn(|| Builder::new_current_thread().enable_io().build().unwrap().block_on(test()));
    });
}

/// Returns a stream and its peer.
fn pair() -> (Stream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::accepted(ours.into(), ClientAddr::Unix), peer)
}

fn tcp_pair() -> (Stream, net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, address) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::accepted(ours.into(), ClientAddr::Tcp(address)), peer)
}

async fn fill(pipe: &mut Pipe, from: &mut Stream, length: usize) -> usize {
    poll_fn(|cx| from.poll_fill(cx, pipe, length)).await.unwrap()
}

async fn empty(pipe: &mut Pipe, to: &mut impl Transport) {
    while !pipe.is_empty() {
        assert!(poll_fn(|cx| to.poll_splice(cx, pipe)).await.unwrap() > 0);
    }
}

fn read(peer: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    peer.read_exact(&mut bytes).unwrap();
    bytes
}

/// Returns a sequence of bytes in which a misplaced byte is visible.
fn numbered(length: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(length).collect()
}

#[test]
fn pipe_takes_the_requested_number_of_bytes() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, mut sink)) = (pair(), tcp_pair());
        source.write_all(b"content, and what follows").unwrap();
        let mut pipe = Pipe::take().unwrap();
        assert_eq!(fill(&mut pipe, &mut from, 7).await, 7);
        assert_eq!(pipe.len(), 7);
        empty(&mut pipe, &mut to).await;
        assert_eq!(read(&mut sink, 7), b"content");
        assert_eq!(fill(&mut pipe, &mut from, 100).await, 18);
        drop(source);
        empty(&mut pipe, &mut to).await;
        assert_eq!(fill(&mut pipe, &mut from, 100).await, 0);
    });
}

#[test]
fn kernel_buffers_more_bytes_after_a_large_pipe() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, sink)) = (tcp_pair(), tcp_pair());
        let content = numbered(400_000);
        let limit = |to: &Stream| SockRef::from(to).tcp_notsent_lowat().unwrap();
        let default = limit(&to);
        for (length, is_raised) in [(1000, false), (content.len(), true)] {
            let reader = thread::spawn({
                let mut sink = sink.try_clone().unwrap();
                move || read(&mut sink, length)
            });
            from.set_receive_low_water(u32::try_from(length).unwrap()).unwrap();
            source.write_all(&content[..length]).unwrap();
            let mut pipe = Pipe::take().unwrap();
            assert_eq!(fill(&mut pipe, &mut from, length).await, length);
            empty(&mut pipe, &mut to).await;
            assert!(reader.join().unwrap() == content[..length]);
            assert_eq!(limit(&to) != default, is_raised, "after {length} bytes");
        }
        sink.shutdown(Shutdown::Both).unwrap();
    });
}

#[test]
fn only_empty_pipes_are_reused() {
    with_reactor(async || {
        let (mut from, mut source) = pair();
        source.write_all(b"secret").unwrap();
        drop(Pipe::take().unwrap());
        assert_eq!(faults::kept(), 1);
        let mut pipe = Pipe::take().unwrap();
        fill(&mut pipe, &mut from, 100).await;
        drop(pipe);
        assert_eq!(faults::kept(), 0);
    });
}

#[test]
fn number_of_pipes_is_limited() {
    with_reactor(async || {
        let mut taken: Vec<_> = std::iter::from_fn(Pipe::take).collect();
        assert_eq!(taken.len(), PIPES_MAX);
        taken.pop();
        assert!(Pipe::take().is_some());
        drop(taken);
        assert_eq!(faults::kept(), PIPES_KEPT);
    });
}

#[test]
fn failed_splice_from_a_socket_copies_and_disables_pipes() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, mut sink)) = (tcp_pair(), pair());
        source.write_all(b"content").unwrap();
        faults::put_sockets_instead_of_a_pipe();
        let mut pipe = Pipe::take().unwrap();
        assert_eq!((fill(&mut pipe, &mut from, 4).await, pipe.len()), (4, 4));
        empty(&mut pipe, &mut to).await;
        assert_eq!(read(&mut sink, 4), b"cont");
        assert!(Pipe::take().is_none());
    });
}

#[test]
fn failed_splice_to_a_socket_copies_and_disables_pipes() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, mut sink)) = (pair(), tcp_pair());
        let content = numbered(100_000);
        source.write_all(&content).unwrap();
        let mut pipe = Pipe::take().unwrap();
        let moved = fill(&mut pipe, &mut from, content.len()).await;
        pipe.put_a_socket_before_its_reader();
        empty(&mut pipe, &mut to).await;
        assert_eq!(read(&mut sink, moved), content[..moved]);
        assert!(Pipe::take().is_none());
    });
}

#[test]
fn transport_without_a_socket_gets_copies() {
    with_reactor(async || {
        let (mut from, mut source) = pair();
        source.write_all(b"content").unwrap();
        let mut pipe = Pipe::take().unwrap();
        fill(&mut pipe, &mut from, 100).await;
        let mut to = Written(Vec::new());
        assert!(!to.splices());
        empty(&mut pipe, &mut to).await;
        assert_eq!(to.0, b"content");
    });
}

/// Drives a tunnel between two streams until both have sent all their data.
async fn tunnel(mut client: Stream, mut upstream: Stream, mut request: Flow, mut response: Flow) -> [u64; 2] {
    poll_fn(|cx| {
        let request_outcome = request.poll(cx, &mut client, &mut upstream)?;
        let response_outcome = response.poll(cx, &mut upstream, &mut client)?;
        if request_outcome.is_ready() && response_outcome.is_ready() {
            Poll::Ready(io::Result::Ok(()))
        } else {
            Poll::Pending
        }
    })
    .await
    .unwrap();
    assert!(request.is_ended() && response.is_ended());
    [request.moved_bytes(), response.moved_bytes()]
}

#[test]
fn tunnel_moves_both_directions_at_once() {
    with_reactor(async || {
        let ((client, client_peer), (upstream, upstream_peer)) = (tcp_pair(), pair());
        let content = numbered(CONTENT_BYTES);
        let sent = content.clone();
        let (mut writes, mut reads) = (client_peer.try_clone().unwrap(), client_peer);
        thread::spawn(move || {
            writes.write_all(&sent).unwrap();
            writes.shutdown(Shutdown::Write).unwrap();
        });
        thread::spawn(move || {
            io::copy(&mut &upstream_peer, &mut &upstream_peer).unwrap();
        });
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            reads.read_to_end(&mut got).unwrap();
            got
        });
        let early = Flow::behind(PooledBuffer::copy_of(b"early"));
        let moved = tunnel(client, upstream, early, Flow::default()).await;
        assert_eq!(moved, [CONTENT_BYTES as u64 + 5; 2]);
        let got = reader.join().unwrap();
        assert!(got[..5] == *b"early" && got[5..] == content);
        assert!(faults::kept() <= 2, "a tunnel needs a pipe for each direction");
    });
}

#[test]
fn tunnel_without_pipes_copies() {
    with_reactor(async || {
        let ((client, mut client_peer), (upstream, mut upstream_peer)) = (tcp_pair(), pair());
        let taken: Vec<_> = std::iter::from_fn(Pipe::take).collect();
        let request = numbered(100_000);
        client_peer.write_all(&request).unwrap();
        client_peer.shutdown(Shutdown::Write).unwrap();
        upstream_peer.write_all(b"answer").unwrap();
        upstream_peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(tunnel(client, upstream, Flow::default(), Flow::default()).await, [100_000, 6]);
        drop(taken);
        let (mut received_request, mut received_response) = (Vec::new(), Vec::new());
        upstream_peer.read_to_end(&mut received_request).unwrap();
        client_peer.read_to_end(&mut received_response).unwrap();
        assert!(received_request == request && received_response == b"answer");
    });
}

#[test]
fn flow_holds_a_pipe_only_with_pending_bytes_and_stops_reading() {
    with_reactor(async || {
        let ((mut from, source), (mut to, mut sink)) = (pair(), pair());
        let mut flow = Flow::default();
        source.set_nonblocking(true).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(flow.poll(&mut cx, &mut from, &mut to).is_pending());
        assert!(matches!(flow.storage(), Storage::None));
        // The peer does not read, so the flow stops, and then the source stops.
        let piece = vec![0; 64 << 10];
        let (mut sent, mut refused) = (0, 0);
        while refused < 100 {
            match (&source).write(&piece) {
                Ok(taken) => (sent, refused) = (sent + taken, 0),
                Err(_) => refused += 1,
            }
            tokio::task::yield_now().await;
            assert!(flow.poll(&mut cx, &mut from, &mut to).is_pending());
        }
        assert!(sent < HELD_BYTES_MAX, "took {sent} bytes for a peer that reads none");
        assert!(matches!(flow.storage(), Storage::Pipe(_)));
        drop(source);
        let reader = thread::spawn(move || io::copy(&mut sink, &mut io::sink()).unwrap());
        poll_fn(|cx| flow.poll(cx, &mut from, &mut to)).await.unwrap();
        assert_eq!((flow.moved_bytes(), reader.join().unwrap()), (sent as u64, sent as u64));
        assert!(matches!(flow.storage(), Storage::None));
    });
}

/// A pipe needs two system calls for each message and bypasses the batching of small sends.
#[test]
fn small_messages_use_buffers_and_large_data_uses_pipes() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, mut sink)) = (pair(), pair());
        let mut flow = Flow::default();
        let mut moved = 0;
        for (length, took_a_pipe) in [(100, false), (100, false), (BUFFER_BYTES, true)] {
            source.write_all(&numbered(length)).unwrap();
            moved += length;
            poll_fn(|cx| match flow.poll(cx, &mut from, &mut to) {
                _ if flow.moved_bytes() == moved as u64 => Poll::Ready(()),
                outcome => outcome.map(Result::unwrap),
            })
            .await;
            assert!(read(&mut sink, length) == numbered(length));
            assert_eq!(faults::kept() > 0, took_a_pipe, "after {moved} bytes");
        }
    });
}

#[test]
fn flow_to_a_closed_peer_fails() {
    with_reactor(async || {
        let ((mut from, mut source), (mut to, sink)) = (pair(), pair());
        drop(sink);
        source.write_all(b"content").unwrap();
        let mut flow = Flow::default();
        assert!(poll_fn(|cx| flow.poll(cx, &mut from, &mut to)).await.is_err());
        drop(flow);
        assert_eq!(faults::kept(), 0, "bytes left in a pipe must not reach another peer");
    });
}

/// A transport that keeps all data that is written to it.
struct Written(Vec<u8>);

impl Transport for Written {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        // Takes a few bytes at a time.
        let taken = slices[0].len().min(3);
        self.0.extend_from_slice(&slices[0][..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

const CONTENT_BYTES: usize = 5_000_001;

/// The maximum that the kernel holds between two local sockets, twice, plus a pipe.
const HELD_BYTES_MAX: usize = 4 << 20;
