//! Checks what a server answers before it is loaded: load generators do not look at content.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::request::{Request, field};

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

/// A persistent connection on which answers are read one by one.
pub(super) struct Probe {
    stream: TcpStream,
    request: Vec<u8>,
    /// The first answer; the others must be as long.
    answer_bytes: usize,
    /// The end of the content.
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
        let answer = read_answer(&mut stream)?;
        let (head, content) = answer.split_once(HEAD_END).context("the header section has no end")?;
        request.check(head, content)?;
        let content_end = content.as_bytes()[content.len().saturating_sub(CHECKED_BYTES)..].to_vec();
        Ok(Self { stream, request: octets, answer_bytes: answer.len(), content_end })
    }

    /// Length of one answer in octets, header section included.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Makes one more request.
    ///
    /// # Errors
    /// When the connection no longer answers.
    pub(super) fn repeat(&mut self) -> anyhow::Result<()> {
        self.batch(1)
    }

    /// Sends some 10,000 requests, pipelined, and checks that there were as many answers and nothing after them.
    ///
    /// # Errors
    /// Fewer or more octets than so many answers have.
    pub(super) fn warm_up(mut self) -> anyhow::Result<()> {
        let bytes = BATCH * self.answer_bytes;
        for _ in 0..WARM_UP_BATCHES.min(WARM_UP_BYTES_MAX / bytes + 1) {
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

/// Reads up to the end of the content, however it arrives.
fn read_answer(stream: &mut TcpStream) -> anyhow::Result<String> {
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream
            .read(&mut piece)
            .with_context(|| format!("no answer but {:?}", String::from_utf8_lossy(&answer)))?;
        ensure!(n > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..n]);
        if is_whole(&answer)? {
            return Ok(String::from_utf8(answer)?);
        }
    }
}

/// Whether as much content has come as the head says.
fn is_whole(answer: &[u8]) -> anyhow::Result<bool> {
    let answer = String::from_utf8_lossy(answer);
    let Some((head, content)) = answer.split_once(HEAD_END) else { return Ok(false) };
    let length: usize =
        field(head, "Content-Length")?.parse().context("the `Content-Length` is no number")?;
    ensure!(content.len() <= length, "there is more content than `Content-Length` says");
    Ok(content.len() == length)
}

const HEAD_END: &str = "\r\n\r\n";

/// How much of the end of each batch is looked at.
const CHECKED_BYTES: usize = 16;
