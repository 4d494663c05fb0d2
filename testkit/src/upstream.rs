//! Named misbehaving upstreams: as bytes for a connection in memory, or as servers on a socket.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

/// Behaviour of an upstream for each request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// Response after the header section of a request.
    pub answer: Vec<u8>,
    /// Action after the response.
    pub then: Then,
    /// Number of correct responses on a connection before it misbehaves.
    pub proper_answers: usize,
}

/// Action after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It waits for the next request.
    GoOn,
    /// It sends the same again and again.
    Repeat,
    /// It closes the connection.
    Close,
    /// It breaks the connection off.
    Reset,
    /// It waits until the other end closes.
    Hang,
}

/// A proper answer.
pub const PROPER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn upstream(answer: impl Into<Vec<u8>>, then: Then) -> Upstream {
    Upstream { answer: answer.into(), then, proper_answers: 0 }
}

/// It answers every request.
pub fn answers_properly() -> Upstream {
    upstream(PROPER, Then::GoOn)
}

/// It reads, and does nothing about it.
pub fn accepts_and_says_nothing() -> Upstream {
    upstream("", Then::Hang)
}

/// It closes the connection instead of answering.
pub fn closes_without_an_answer() -> Upstream {
    upstream("", Then::Close)
}

/// Its head ends in the middle of a field line.
pub fn closes_mid_head() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Len", Then::Close)
}

/// Its content is shorter than it said.
pub fn closes_mid_content() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::Close)
}

/// A chunk of it is shorter than it said.
pub fn closes_mid_chunk() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nfour", Then::Close)
}

/// It says that all went well and then breaks off.
pub fn resets_mid_content() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::Reset)
}

/// It goes quiet in the middle of its head.
pub fn stalls_in_head() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\n", Then::Hang)
}

/// It goes quiet in the middle of its content.
pub fn stalls_in_content() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::Hang)
}

/// It answers a request twice.
pub fn sends_two_answers() -> Upstream {
    upstream(PROPER.repeat(2), Then::GoOn)
}

/// It sends more than it said.
pub fn sends_wrong_length() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", Then::GoOn)
}

/// Its header section exceeds all limits.
pub fn sends_a_huge_head() -> Upstream {
    let lines = format!("X-Huge: {}\r\n", "a".repeat(1000)).repeat(100);
    upstream(format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), Then::GoOn)
}

/// It does not speak HTTP.
pub fn sends_rubbish() -> Upstream {
    upstream("220 mail.example ready\r\n", Then::Hang)
}

/// It promises an answer for ever.
pub fn endless_interim_responses() -> Upstream {
    upstream("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Then::Repeat)
}

/// It answers the first request, and closes the connection when the second is on its way.
pub fn closes_idle_connection_just_as_it_is_reused() -> Upstream {
    Upstream { proper_answers: 1, ..closes_without_an_answer() }
}

/// It speaks HTTP/1.0: the end of the connection ends its content.
pub fn speaks_http10() -> Upstream {
    upstream("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nok", Then::Close)
}

/// It refuses the request body, says so, and closes.
pub fn refuses_content() -> Upstream {
    upstream(
        "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
        Then::Close,
    )
}

/// Returns an address without a listener, which no other process gets while this one lives.
///
/// # Panics
/// The system has no port.
pub fn refuses() -> SocketAddr {
    let socket = kept_free(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = getsockname(&socket).expect("a bound socket has an address");
    std::mem::forget(socket);
    SocketAddr::try_from(address).expect("it is one of the internet")
}

/// Reserves an address without a listener, so that the system gives it to no other socket with port 0. A
/// socket can still bind to it explicitly.
///
/// # Panics
/// The address has a listener.
pub fn kept_free(address: SocketAddr) -> OwnedFd {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .expect("there should be a socket");
    set_socket_reuseaddr(&socket, true).expect("it is a socket");
    bind(&socket, &address).expect("nobody should listen there");
    socket
}

impl Upstream {
    /// Serves on a socket until what is returned is dropped.
    ///
    /// # Panics
    /// The system has no port.
    pub fn listen(self) -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there should be a port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (upstream, shared) = (self.clone(), shared.clone());
                // Whatever the client does to the connection is the client's business.
                thread::spawn(move || drop(upstream.serve(connection, &shared)));
            }
        });
        Listening { address, state }
    }

    fn serve(&self, mut connection: TcpStream, state: &State) -> io::Result<()> {
        connection.set_nodelay(true)?;
        for request in 0.. {
            if !read_head(&mut connection)? {
                return Ok(());
            }
            state.requests.fetch_add(1, Ordering::SeqCst);
            if request < self.proper_answers {
                connection.write_all(PROPER.as_bytes())?;
                continue;
            }
            connection.write_all(&self.answer)?;
            match self.then {
                Then::GoOn => {}
                Then::Repeat => loop {
                    connection.write_all(&self.answer)?;
                },
                Then::Close => {
                    connection.shutdown(Shutdown::Write)?;
                    return wait_for_end(&mut connection);
                }
                // To close a socket that does not linger breaks the connection off.
                Then::Reset => return Ok(set_socket_linger(&connection, Some(Duration::ZERO))?),
                Then::Hang => return wait_for_end(&mut connection),
            }
        }
        Ok(())
    }
}

/// Reads byte by byte, so that nothing after the header section is consumed. Returns `false` at the end of
/// the connection.
fn read_head(connection: &mut TcpStream) -> io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if connection.read(&mut byte)? == 0 {
            return Ok(false);
        }
        head.extend(byte);
    }
    Ok(true)
}

fn wait_for_end(connection: &mut TcpStream) -> io::Result<()> {
    while connection.read(&mut [0; 4096])? > 0 {}
    Ok(())
}

/// A server on a socket.
pub struct Listening {
    /// Address of the server.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Listening {
    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread, which sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}
