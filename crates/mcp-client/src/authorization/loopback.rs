//! Login from a terminal: the authorization server redirects the browser to a port of this machine (RFC
//! 8252 §7.3).

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, TcpListener as StdTcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::login::{LoginFuture, UserAgent};

/// Shows a person the URL of the login, and waits on a local port for the redirect.
pub struct LoopbackRedirect {
    open: Box<dyn Fn(&str) + Send + Sync>,
    port: u16,
    /// The listening socket, bound at first use.
    listener: Mutex<Option<StdTcpListener>>,
    logins: Arc<Logins>,
}

/// The logins that wait for a redirect at the port, and the connections of the port.
#[derive(Default)]
struct Logins(Mutex<State>);

#[derive(Default)]
struct State {
    /// The senders that pass a redirect to its login, by the `state` of the login. `None` after the
    /// redirect has arrived. All logins accept connections at the same port, so a login may accept the
    /// connection of a browser that belongs to another login.
    receivers: HashMap<String, Option<oneshot::Sender<String>>>,
    /// Connections, from the oldest to the newest.
    connections: VecDeque<AbortHandle>,
}

/// A login that waits for the redirect with its `state`. Dropping the login ends the wait.
struct Login {
    logins: Arc<Logins>,
    state: String,
}

impl LoopbackRedirect {
    /// Creates a user agent that calls `open` with the URL of each login. `open` can print the URL or start
    /// a browser.
    pub fn new(open: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), port: 0, listener: Mutex::new(None), logins: Arc::default() }
    }

    /// Sets the port, for authorization servers that compare the whole redirect URI. Default: any free port.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    fn listener(&self) -> io::Result<StdTcpListener> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            return listener.try_clone();
        }
        let bound = StdTcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        bound.set_nonblocking(true)?;
        listener.insert(bound).try_clone()
    }
}

impl UserAgent for LoopbackRedirect {
    fn redirect_uri(&self) -> io::Result<String> {
        Ok(format!("http://{}{PATH}", self.listener()?.local_addr()?))
    }

    fn redirect_uri_for(&self, issuer: &str) -> io::Result<String> {
        let digest = Sha256::digest(issuer);
        let digits = digest[..8].iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
        Ok(format!("{}/{digits}", self.redirect_uri()?))
    }

    fn log_in<'a>(&'a self, url: &'a str) -> LoginFuture<'a> {
        Box::pin(async move {
            let listener = TcpListener::from_std(self.listener()?)?;
            let state = state_of(url).ok_or(io::ErrorKind::InvalidInput)?;
            let (login, redirect) = self.logins.begin(state);
            (self.open)(url);
            tokio::select! {
                error = accept(&listener, &login.logins) => Err(error),
                redirect = redirect => redirect.map_err(|_| io::ErrorKind::Interrupted.into()),
            }
        })
    }
}

/// Accepts connections until an error occurs. Returns the error.
async fn accept(listener: &TcpListener, logins: &Arc<Logins>) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = tokio::spawn(timeout(CONNECTION_TIME, serve(stream, logins.clone())));
                logins.keep(serving.abort_handle());
            }
            // The peer closed the connection before this process accepted it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return error,
        }
    }
}

/// Answers one HTTP request. If the request is a redirect, passes it to the login that waits for this
/// redirect.
async fn serve(mut stream: TcpStream, logins: Arc<Logins>) {
    // Reads the whole head of the request. Closing a socket with unread bytes resets the connection, and
    // the answer may be lost.
    let mut head = Vec::with_capacity(REQUEST_BYTES_MAX);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < REQUEST_BYTES_MAX {
        if !stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
            return;
        }
    }
    let redirect = redirect_of(&head);
    let login = redirect.as_deref().and_then(state_of).and_then(|state| logins.take(&state));
    let (status, text) = match &login {
        Some(_) => ("200 OK", "You can close this window and go back to the terminal.\n"),
        None => ("404 Not Found", "There is nothing here.\n"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // The login is complete even if the browser does not read the answer.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    // The end of the last login closes all connections, so this function sends the answer first.
    if let (Some(login), Some(redirect)) = (login, redirect) {
        let _ = login.send(redirect);
    }
}

impl Logins {
    /// Starts a login that waits for the redirect with this `state`.
    fn begin(self: &Arc<Self>, state: String) -> (Login, oneshot::Receiver<String>) {
        let (sender, receiver) = oneshot::channel();
        self.state().receivers.insert(state.clone(), Some(sender));
        (Login { logins: self.clone(), state }, receiver)
    }

    /// Takes the sender for the redirect with this `state`. Returns `None` if no login waits for this
    /// redirect.
    fn take(&self, state: &str) -> Option<oneshot::Sender<String>> {
        self.state().receivers.get_mut(state)?.take()
    }

    /// Adds a connection. Closes the oldest connection if the port already has [`CONNECTIONS_MAX`]
    /// connections.
    fn keep(&self, connection: AbortHandle) {
        let mut state = self.state();
        let connections = &mut state.connections;
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        connections.push_back(connection);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let mut state = self.logins.state();
        state.receivers.remove(&self.state);
        if state.receivers.is_empty() {
            state.connections.drain(..).for_each(|connection| connection.abort());
        }
    }
}

/// Returns the request target if the request is a redirect: a GET request for `/callback` with a query, or
/// for a path below `/callback`.
fn redirect_of(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let is_redirect = target.strip_prefix(PATH).is_some_and(|rest| rest.starts_with(['?', '/']));
    is_redirect.then(|| target.to_owned())
}

fn state_of(url: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let state = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "state");
    state.map(|(_, state)| state.into_owned())
}

const PATH: &str = "/callback";

/// Maximum number of connections. Browsers open connections in advance, and any local program can open
/// connections. A browser sends the redirect at once, so its connection ends before it becomes the oldest
/// connection.
const CONNECTIONS_MAX: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 16 << 10;

impl fmt::Debug for LoopbackRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackRedirect").field("port", &self.port).finish_non_exhaustive()
    }
}
