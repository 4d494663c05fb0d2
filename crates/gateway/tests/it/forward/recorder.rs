//! An upstream server with its own strict parser. It records every complete request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that answers each request with its method, target and body.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    recorded: Mutex<Vec<Recorded>>,
    violations: Mutex<Vec<String>>,
}

/// A complete request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let all = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if all.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = all.clone();
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    /// Takes the requests recorded since the last call.
    pub(crate) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.shared.recorded.lock().unwrap())
    }

    /// Takes the only request recorded since the last call.
    pub(crate) fn take_one(&self) -> Recorded {
        let mut recorded = self.take();
        assert_eq!(recorded.len(), 1, "{recorded:?}");
        recorded.remove(0)
    }

    /// Violations of the strict grammar.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.shared.violations.lock().unwrap().clone()
    }
}

impl Recorded {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.lines.iter().filter(|(of, _)| of.eq_ignore_ascii_case(name)).count()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            match read_request(&mut reader) {
                Ok(Some(request)) => {
                    let mut answer = format!("{} {} ", request.method, request.target).into_bytes();
                    answer.extend(&request.content);
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                    let is_to_head = request.method == "HEAD";
                    self.recorded.lock().unwrap().push(request);
                    let mut bytes = head.into_bytes();
                    if !is_to_head {
                        bytes.extend(answer);
                    }
                    if reader.get_mut().write_all(&bytes).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return self.violations.lock().unwrap().push(error.to_string());
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

fn violation(rule: &str, bytes: &[u8]) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{rule}: {}", bytes.escape_ascii()))
}

/// Returns `None` at the end of the connection, also within a request.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Recorded>> {
    let Some(request_line) = read_line(reader)? else { return Ok(None) };
    let parts: Vec<_> = request_line.split(' ').collect();
    let &[method, target, "HTTP/1.1"] = &parts[..] else {
        return Err(violation("invalid request line", request_line.as_bytes()));
    };
    let is_origin = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    if !is_origin || method.is_empty() || !method.bytes().all(is_token) {
        return Err(violation("invalid method or target", request_line.as_bytes()));
    }
    let Some(lines) = read_lines(reader)? else { return Ok(None) };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut request = Recorded { method, target, lines, content: Vec::new(), trailers: Vec::new() };
    if request.count("host") != 1 {
        return Err(violation("expected exactly one Host header", format!("{request:?}").as_bytes()));
    }
    Ok(read_content(reader, &mut request)?.then_some(request))
}

/// Returns `false` if the connection ends within the content.
fn read_content(reader: &mut impl BufRead, request: &mut Recorded) -> io::Result<bool> {
    let whole = format!("{request:?}");
    match (request.count("content-length"), request.count("transfer-encoding")) {
        (0, 0) => Ok(true),
        (1, 0) => {
            let length = request.field("content-length").unwrap_or_default();
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            let length = is_number.then(|| length.parse().ok()).flatten();
            let length = length.ok_or_else(|| violation("invalid Content-Length", whole.as_bytes()))?;
            read_bytes(reader, length, &mut request.content)
        }
        (0, 1) if request.field("transfer-encoding") == Some("chunked") => read_chunks(reader, request),
        _ => Err(violation("ambiguous framing", whole.as_bytes())),
    }
}

fn read_chunks(reader: &mut impl BufRead, request: &mut Recorded) -> io::Result<bool> {
    loop {
        let Some(size) = read_line(reader)? else { return Ok(false) };
        let is_size = (1..=15).contains(&size.len()) && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let length = u64::from_str_radix(&size, 16).ok().filter(|_| is_size);
        let length = length.ok_or_else(|| violation("invalid chunk size", size.as_bytes()))?;
        if length == 0 {
            let Some(trailers) = read_lines(reader)? else { return Ok(false) };
            request.trailers = trailers;
            return Ok(true);
        }
        if !read_bytes(reader, length, &mut request.content)? {
            return Ok(false);
        }
        match read_line(reader)? {
            None => return Ok(false),
            Some(line) if line.is_empty() => {}
            Some(line) => return Err(violation("no line end after a chunk", line.as_bytes())),
        }
    }
}

fn read_bytes(reader: &mut impl BufRead, length: u64, content: &mut Vec<u8>) -> io::Result<bool> {
    Ok(Read::by_ref(reader).take(length).read_to_end(content)? as u64 == length)
}

/// Reads a section up to its empty line; `None` if the connection ends first.
fn read_lines(reader: &mut impl BufRead) -> io::Result<Option<Vec<(String, String)>>> {
    let mut lines = Vec::new();
    loop {
        let Some(line) = read_line(reader)? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(lines));
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| violation("invalid field line", line.as_bytes()))?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(violation("invalid field name", line.as_bytes()));
        }
        lines.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
}

/// Reads a line that ends with CRLF and has no control character except tabs; `None` if the connection ends
/// first. Non-ASCII bytes are decoded as Latin-1.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(None);
    }
    let text = line.strip_suffix(b"\r\n").ok_or_else(|| violation("a bare line feed", &line))?;
    if text.iter().any(|byte| (byte.is_ascii_control()) && *byte != b'\t') {
        return Err(violation("a control character", text));
    }
    Ok(Some(text.iter().copied().map(char::from).collect()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}
