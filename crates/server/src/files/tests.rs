//! Calls the file handler directly, without a connection.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use thruway_http1::{HeadIndex, ServerConnection, ServerEvent};
use thruway_message::{FieldLineSpan, FieldLines};
use thruway_net::{Clock, Worker};

use super::*;
use crate::connection_info::ConnectionInfo;
use crate::response::{Piece, Source};
use crate::router::Router;
use thruway_http1::Limits;
use thruway_net::ClientAddr;

mod conditions_and_ranges;
mod fallbacks;
mod finding;
mod negotiation;

/// Calls `read` with field lines in the form that a parser produces.
pub(crate) fn with_fields<R>(lines: &[(&str, &str)], read: impl FnOnce(FieldLines<'_>) -> R) -> R {
    let mut bytes = Vec::new();
    let mut append = |text: &str| {
        bytes.extend_from_slice(text.as_bytes());
        u32::try_from(bytes.len()).unwrap()
    };
    let spans: Vec<FieldLineSpan> = lines
        .iter()
        .map(|(name, value)| {
            let name_start = append("");
            let name_end = append(name);
            let value_start = append(": ");
            let value_end = append(value);
            append("\r\n");
            FieldLineSpan { name_start, name_end, value_start, value_end }
        })
        .collect();
    read(FieldLines::from_parsed(&bytes, &spans))
}

/// A directory to serve.
struct Site(TempDir);

impl Site {
    fn new(files: &[(&str, &str)]) -> Self {
        let site = Self(TempDir::new().unwrap());
        for (path, content) in files {
            site.write(path, content);
        }
        site
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file with the modification time [`MODIFIED`].
    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
        self.set_modified(path, MODIFIED);
    }

    fn set_modified(&self, path: &str, since_epoch: Duration) {
        let file = File::options().write(true).open(self.path(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + since_epoch).unwrap();
    }

    fn files(&self) -> Files {
        Files::new(self.0.path()).unwrap()
    }

    /// Returns a handler that serves the files at `/`.
    fn mounted(&self) -> Arc<dyn Handler> {
        Arc::new(Router::new().mount("/", self.files()))
    }
}

/// A response and its body.
struct Reply {
    response: Response,
    content: Vec<u8>,
}

impl Reply {
    fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns the value of a field, or an empty string if the field is missing.
    fn field(&self, name: &str) -> &str {
        self.response.field(name).map_or("", |value| value.as_str().unwrap())
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.content).unwrap()
    }

    /// Returns the names of all fields in order.
    fn field_names(&self) -> Vec<&str> {
        self.response.field_lines().iter().map(|line| line.name.as_str()).collect()
    }
}

fn get(handler: &Arc<dyn Handler>, target: &str, lines: &[(&str, &str)]) -> Reply {
    request(handler, "GET", target, lines)
}

fn head(handler: &Arc<dyn Handler>, target: &str, lines: &[(&str, &str)]) -> Reply {
    request(handler, "HEAD", target, lines)
}

fn request(handler: &Arc<dyn Handler>, method: &str, target: &str, lines: &[(&str, &str)]) -> Reply {
    let fields: String = lines.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
    let bytes = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let mut connection = ServerConnection::new(Limits::default());
    let mut index = HeadIndex::with_capacity(100);
    let found = connection.handle_input(bytes.as_bytes(), &mut index);
    assert_eq!(found, Ok((Some(ServerEvent::Request), bytes.len())), "{bytes}");
    let (head, facts) = (index.request_head(bytes.as_bytes()), *index.request_facts());
    let info = ConnectionInfo {
        client: ClientAddr::Unix,
        peer: thruway_net::Peer::Unix { is_own_process: false },
        listener: 0,
        destination: None,
        tls: None,
        compression: <_>::default(),
        handler_settings: None,
    };
    let worker = Worker::for_test(Clock::system());
    let mut request = Request::new(&head, &facts, &[], &info, &worker);
    let Answer::Now(mut response) = handler.handle(&mut request) else {
        panic!("the file handler should respond at once")
    };
    let content = read(response.take_content());
    Reply { response, content }
}

fn read(content: Source) -> Vec<u8> {
    match content {
        Source::Empty | Source::LeftOut(_) => Vec::new(),
        Source::Static(bytes) => bytes.to_vec(),
        Source::Pooled(bytes) => bytes.to_vec(),
        Source::Bytes(bytes) => bytes.to_vec(),
        Source::File(range) => {
            let mut bytes = vec![0; usize::try_from(range.length).unwrap()];
            range.file.read_exact_at(&mut bytes, range.offset).unwrap();
            bytes
        }
        Source::Stream(stream) => read_stream(stream).unwrap(),
        Source::Tunnel(_) => panic!("file responses are never tunnels"),
    }
}

/// Reads a stream to its end. The number of bytes must match the announced length.
fn read_stream(mut stream: Pin<Box<dyn crate::ContentStream>>) -> Result<Vec<u8>, crate::BoxError> {
    let (length, mut bytes) = (stream.length(), Vec::new());
    loop {
        match stream.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(Piece::Data(data)))) => bytes.extend_from_slice(&data),
            Poll::Ready(Some(Ok(Piece::Trailers(_)))) => panic!("files have no trailers"),
            Poll::Ready(Some(Err(error))) => return Err(error),
            Poll::Ready(None) => break,
            Poll::Pending => panic!("files are always ready"),
        }
    }
    assert_eq!(length, Some(bytes.len() as u64));
    Ok(bytes)
}

/// Sun, 06 Nov 1994 08:49:37 GMT and a fraction of a second.
const MODIFIED: Duration = Duration::new(784_111_777, 123_456_789);
const MODIFIED_DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
