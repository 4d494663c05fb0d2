//! Where a person comes back to who has logged in from a terminal: a port of this machine (RFC 8252 §7.3).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener as StdTcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::login::{LoggingIn, UserAgent};

/// Lets a person log in by whatever opens a URL, and waits on a port of this machine for the answer.
pub struct LoopbackRedirect {
    open: Box<dyn Fn(&str) + Send + Sync>,
    port: u16,
    /// Bound when it is first needed.
    listener: Mutex<Option<StdTcpListener>>,
}

impl LoopbackRedirect {
    /// Calls `open` with the URL to be opened: to print it, or to start a browser.
    pub fn new(open: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), port: 0, listener: Mutex::new(None) }
    }

    /// On this port, for authorization servers that know the client by its whole redirect URI. Default: any.
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

    fn log_in<'a>(&'a self, url: &'a str) -> LoggingIn<'a> {
        Box::pin(async move {
            let listener = TcpListener::from_std(self.listener()?)?;
            (self.open)(url);
            wait(&listener, state_of(url).as_deref()).await
        })
    }
}

/// Waits for the redirect that has this state. Others may be anybody's, and are no answer.
async fn wait(listener: &TcpListener, state: Option<&str>) -> io::Result<String> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                let (stream, _) = accepted?;
                connections.spawn(timeout(CONNECTION_TIME, serve(stream, state.map(str::to_owned))));
            }
            Some(served) = connections.join_next() => {
                if let Ok(Ok(Some(redirect))) = served {
                    return Ok(redirect);
                }
            }
        }
    }
}

/// Answers one request; the URL that it is for, if that is the redirect.
async fn serve(mut stream: TcpStream, state: Option<String>) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(2).any(|pair| pair == b"\r\n") && head.len() < REQUEST_BYTES_MAX {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let redirect = redirect_of(&head).filter(|redirect| state_of(redirect) == state);
    let (status, text) = match &redirect {
        Some(_) => ("200 OK", "You can close this window and go back to the terminal.\n"),
        None => ("404 Not Found", "There is nothing here.\n"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // Who does not read what is said has come back all the same.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    redirect
}

/// The target of `GET /callback?… HTTP/1.1`.
fn redirect_of(head: &[u8]) -> Option<String> {
    let line = head.split(|octet| *octet == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let is_redirect = target.strip_prefix(PATH).is_some_and(|rest| rest.starts_with('?'));
    is_redirect.then(|| target.to_owned())
}

fn state_of(url: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let state = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "state");
    state.map(|(_, state)| state.into_owned())
}

const PATH: &str = "/callback";

/// Browsers connect before they ask, and do not always ask then.
const CONNECTIONS_MAX: usize = 16;
const CONNECTION_TIME: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 16 << 10;

impl fmt::Debug for LoopbackRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackRedirect").field("port", &self.port).finish_non_exhaustive()
    }
}
