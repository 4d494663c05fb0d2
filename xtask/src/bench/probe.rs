//! Checks what a server answers before it is loaded: load generators do not look at content.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::request::{Request, field};
use crate::stop::now;

/// No answer takes longer on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a server may take to send octets that nobody asked for.
const QUIET: Duration = Duration::from_millis(20);

/// Requests sent back to back, to see that each is answered once.
const BATCH: usize = 16;

/// Batches of the warm-up: some 10,000 requests.
const WARM_UP_BATCHES: usize = 640;

/// Long answers warm a server up sooner.
const WARM_UP_BYTES_MAX: usize = 256 << 20;

/// When the warm-up of a slow server is over, however many requests it has had.
const WARM_UP: Duration = Duration::from_secs(5);

/// A persistent connection on which answers are read one by one.
pub(super) struct Probe {
    stream: TcpStream,
    request: Vec<u8>,
    /// The first answer; the others must be as long.
    answer_bytes: usize,
    /// The end of the content, or of its last chunks.
    content_end: Vec<u8>,
}

impl Probe {
    /// Connects, makes one request and checks its answer to the letter of the workload.
    ///
    /// # Errors
    /// No connection, no answer, or not the one that was agreed.
    pub(super) fn connect(address: SocketAddr, request: Request) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let octets = request.octets();
        stream.write_all(&octets)?;
        let (answer, content) = read_answer(&mut stream)?;
        let (head, body) = answer.split_once(HEAD_END).context("the header section has no end")?;
        request.check(head, &content)?;
        let content_end = body.as_bytes()[body.len().saturating_sub(CHECKED_BYTES)..].to_vec();
        Ok(Self { stream, request: octets, answer_bytes: answer.len(), content_end })
    }

    /// Length of one answer in octets, header section included.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Sends some 10,000 requests, pipelined, or as many as are answered within five seconds, and checks that there were as
    /// many answers and nothing after them.
    ///
    /// # Errors
    /// Fewer or more octets than so many answers have.
    pub(super) fn warm_up(mut self) -> anyhow::Result<()> {
        let (started, bytes) = (now(), BATCH * self.answer_bytes);
        for _ in 0..WARM_UP_BATCHES.min(WARM_UP_BYTES_MAX / bytes + 1) {
            if started.elapsed() > WARM_UP {
                break;
            }
            self.batch(BATCH)?;
        }
        self.stream.set_read_timeout(Some(QUIET))?;
        match self.stream.read(&mut [0]) {
            Ok(0) => bail!("the server closed a persistent connection"),
            Ok(_) => bail!("the server sent octets after the last answer"),
            Err(_quiet) => Ok(()),
        }
    }

    fn batch(&mut self, n: usize) -> anyhow::Result<()> {
        self.stream.write_all(&self.request.repeat(n))?;
        let mut answers = vec![0; n * self.answer_bytes];
        self.stream.read_exact(&mut answers).context("an answer is missing")?;
        ensure!(answers.ends_with(&self.content_end), "an answer has another length than the first");
        Ok(())
    }
}

/// Reads up to the end of the content, however it arrives: the answer as it came, and its content.
fn read_answer(stream: &mut TcpStream) -> anyhow::Result<(String, String)> {
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream
            .read(&mut piece)
            .with_context(|| format!("no answer but {:?}", String::from_utf8_lossy(&answer)))?;
        ensure!(n > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..n]);
        if let Some(content) = whole_content(&String::from_utf8_lossy(&answer))? {
            return Ok((String::from_utf8(answer)?, content));
        }
    }
}

/// The content, once as much of it has come as the head or the chunks say.
fn whole_content(answer: &str) -> anyhow::Result<Option<String>> {
    let Some((head, body)) = answer.split_once(HEAD_END) else { return Ok(None) };
    if field(head, "Transfer-Encoding").is_ok_and(|coding| coding == "chunked") {
        return decode_chunks(body);
    }
    let length: usize =
        field(head, "Content-Length")?.parse().context("the `Content-Length` is no number")?;
    ensure!(body.len() <= length, "there is more content than `Content-Length` says");
    Ok((body.len() == length).then(|| body.to_owned()))
}

/// The content of chunks without extensions and trailers, once the last one has come.
fn decode_chunks(mut body: &str) -> anyhow::Result<Option<String>> {
    let mut content = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).context("the size of a chunk is no number")?;
        let Some((chunk, rest)) = rest.split_at_checked(size) else { return Ok(None) };
        let Some(rest) = rest.strip_prefix("\r\n") else { return Ok(None) };
        if size == 0 {
            ensure!(rest.is_empty(), "there is more after the last chunk");
            return Ok(Some(content));
        }
        content.push_str(chunk);
        body = rest;
    }
    Ok(None)
}

const HEAD_END: &str = "\r\n\r\n";

/// How much of the end of each batch is looked at.
const CHECKED_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\n";

    #[test]
    fn an_answer_is_whole_when_its_length_has_come() {
        let content = |body: &str| whole_content(&format!("{HEAD}Content-Length: 3\r\n\r\n{body}"));
        assert_eq!(content("ab").unwrap(), None);
        assert_eq!(content("abc").unwrap().as_deref(), Some("abc"));
        assert!(content("abcd").is_err());
    }

    #[test]
    fn a_chunked_answer_is_whole_with_its_last_chunk() {
        let answer = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
        for end in 0..answer.len() {
            assert_eq!(whole_content(&answer[..end]).unwrap(), None, "{:?}", &answer[..end]);
        }
        assert_eq!(whole_content(&answer).unwrap().as_deref(), Some("abcd"));
        assert!(whole_content(&format!("{answer}4")).is_err());
    }
}
