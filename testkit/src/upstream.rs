//! Scripted upstream servers that misbehave in a certain way. A test sends their bytes over an in-memory
//! connection, or starts them on a socket.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

/// Behavior of an upstream server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// Bytes that the server sends after it has read the head of a request.
    pub response: Vec<u8>,
    /// Action after the response.
    pub after_response: AfterResponse,
    /// Number of requests per connection that get [`OK_RESPONSE`] before the server misbehaves.
    pub ok_responses_first: usize,
}

/// Action of an upstream server after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterResponse {
    /// Waits for the next request.
    KeepOpen,
    /// Sends the response again, without end.
    RepeatResponse,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Does nothing until the client closes the connection.
    Hang,
}

/// A correct response with the body `ok`.
pub const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn upstream(response: impl Into<Vec<u8>>, after_response: AfterResponse) -> Upstream {
    Upstream { response: response.into(), after_response, ok_responses_first: 0 }
}

/// Sends a correct response to each request.
pub fn responds_ok() -> Upstream {
    upstream(OK_RESPONSE, AfterResponse::KeepOpen)
}

/// Accepts connections and reads requests, but never responds.
pub fn accepts_without_response() -> Upstream {
    upstream("", AfterResponse::Hang)
}

/// Closes the connection after the request, without a response.
pub fn closes_without_response() -> Upstream {
    upstream("", AfterResponse::Close)
}

/// Closes the connection in the middle of a header line.
pub fn closes_mid_head() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Len", AfterResponse::Close)
}

/// Closes the connection before it has sent as many bytes as `Content-Length` announced.
pub fn closes_mid_body() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", AfterResponse::Close)
}

/// Closes the connection in the middle of a chunk.
pub fn closes_mid_chunk() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nfour", AfterResponse::Close)
}

/// Sends the head and a part of the body, and then resets the connection.
pub fn resets_mid_body() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", AfterResponse::Reset)
}

/// Sends a part of the response head, and then stalls.
pub fn stalls_mid_head() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\n", AfterResponse::Hang)
}

/// Sends a part of the response body, and then stalls.
pub fn stalls_mid_body() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", AfterResponse::Hang)
}

/// Sends two responses to each request.
pub fn sends_two_responses() -> Upstream {
    upstream(OK_RESPONSE.repeat(2), AfterResponse::KeepOpen)
}

/// Sends more bytes than `Content-Length` announced.
pub fn exceeds_content_length() -> Upstream {
    upstream("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", AfterResponse::KeepOpen)
}

/// Sends a header section that exceeds all limits.
pub fn sends_oversized_head() -> Upstream {
    let lines = format!("X-Huge: {}\r\n", "a".repeat(1000)).repeat(100);
    upstream(format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), AfterResponse::KeepOpen)
}

/// Responds in another protocol (SMTP).
pub fn sends_other_protocol() -> Upstream {
    upstream("220 mail.example ready\r\n", AfterResponse::Hang)
}

/// Sends interim responses (103) without end.
pub fn sends_endless_interim_responses() -> Upstream {
    upstream("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", AfterResponse::RepeatResponse)
}

/// Responds to the first request on a connection, and closes the connection when it receives the second. To
/// the client, this looks like an idle timeout that expires at the moment when the client reuses the
/// connection.
pub fn closes_on_second_request() -> Upstream {
    Upstream { ok_responses_first: 1, ..closes_without_response() }
}

/// Sends an HTTP/1.0 response without a length. The end of the connection ends the body.
pub fn responds_with_http10() -> Upstream {
    upstream("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nok", AfterResponse::Close)
}

/// Responds with 413 before it has read the request body, and closes the connection.
pub fn rejects_request_body() -> Upstream {
    upstream(
        "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
        AfterResponse::Close,
    )
}

/// Returns an address without a listener, at which the kernel refuses connections. The address stays reserved
/// until this process exits.
///
/// # Panics
/// Panics if no port is free.
pub fn unused_address() -> SocketAddr {
    let socket = reserve_address(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = getsockname(&socket).expect("a bound socket has an address");
    std::mem::forget(socket);
    SocketAddr::try_from(address).expect("the socket should have an IP address")
}

/// Reserves an address without listening. If another socket binds to port 0, the kernel does not assign the
/// reserved port to this socket. A socket can still bind explicitly to the reserved address.
///
/// # Panics
/// Panics if another socket listens on the address.
pub fn reserve_address(address: SocketAddr) -> OwnedFd {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .expect("creating a socket should succeed");
    set_socket_reuseaddr(&socket, true).expect("SO_REUSEADDR should be supported");
    bind(&socket, &address).expect("the address should be free");
    socket
}

impl Upstream {
    /// Starts the server on a free loopback port. Dropping the returned value stops it.
    ///
    /// # Panics
    /// Panics if no port is free.
    pub fn listen(self) -> RunningUpstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port should be available");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if shared.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (upstream, shared) = (self.clone(), shared.clone());
                // Ignores errors: clients may close or reset the connection at any time.
                thread::spawn(move || drop(upstream.serve(connection, &shared)));
            }
        });
        RunningUpstream { address, state }
    }

    fn serve(&self, mut connection: TcpStream, state: &State) -> io::Result<()> {
        connection.set_nodelay(true)?;
        for request in 0.. {
            if !read_head(&mut connection)? {
                return Ok(());
            }
            state.requests.fetch_add(1, Ordering::SeqCst);
            if request < self.ok_responses_first {
                connection.write_all(OK_RESPONSE.as_bytes())?;
                continue;
            }
            connection.write_all(&self.response)?;
            match self.after_response {
                AfterResponse::KeepOpen => {}
                AfterResponse::RepeatResponse => loop {
                    connection.write_all(&self.response)?;
                },
                AfterResponse::Close => {
                    connection.shutdown(Shutdown::Write)?;
                    return wait_for_end(&mut connection);
                }
                // With a linger time of 0, dropping the socket sends a reset.
                AfterResponse::Reset => return Ok(set_socket_linger(&connection, Some(Duration::ZERO))?),
                AfterResponse::Hang => return wait_for_end(&mut connection),
            }
        }
        Ok(())
    }
}

/// Reads a request head byte by byte, so that the request body stays unread. Returns `false` at the end of
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

/// An upstream server on a socket.
pub struct RunningUpstream {
    /// Address of the server.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_stopped: AtomicBool,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl RunningUpstream {
    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of received requests.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }
}

impl Drop for RunningUpstream {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::SeqCst);
        // A connection wakes the accepting thread, which then checks `is_stopped`.
        drop(TcpStream::connect(self.address));
    }
}
