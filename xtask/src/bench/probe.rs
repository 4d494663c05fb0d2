//! Checks what a server answers before it is loaded: load generators do not look at content.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

const REQUEST: &str = "GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\n\r\n";
const CONTENT: &str = "Hello, World!";

/// No answer takes longer on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a server may take to send octets that nobody asked for.
const QUIET: Duration = Duration::from_millis(20);

/// Requests sent back to back, to see that each is answered once.
const BATCH: usize = 16;

/// Batches of the warm-up: some 10,000 requests.
const WARM_UP_BATCHES: usize = 640;

/// A persistent connection on which answers are read one by one.
pub(super) struct Probe {
    stream: TcpStream,
    answer_bytes: usize,
}

impl Probe {
    /// Connects, makes one request and checks its answer to the letter of the workload.
    ///
    /// # Errors
    /// No connection, no answer, or not the one that was agreed.
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(REQUEST.as_bytes())?;
        let answer = read_answer(&mut stream)?;
        Ok(Self { stream, answer_bytes: check_answer(&answer)? })
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
        for _ in 0..WARM_UP_BATCHES {
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
        self.stream.write_all(REQUEST.repeat(n).as_bytes())?;
        let mut answers = vec![0; n * self.answer_bytes];
        self.stream.read_exact(&mut answers).context("an answer is missing")?;
        ensure!(answers.ends_with(CONTENT.as_bytes()), "an answer has another length than the first");
        Ok(())
    }
}

/// Reads up to the end of the content, however it arrives.
fn read_answer(stream: &mut TcpStream) -> anyhow::Result<String> {
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(CONTENT.as_bytes()) {
        let n = stream
            .read(&mut piece)
            .with_context(|| format!("no answer but {:?}", String::from_utf8_lossy(&answer)))?;
        ensure!(n > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..n]);
    }
    Ok(String::from_utf8(answer)?)
}

/// Checks status, field lines and content, and gives back the length.
fn check_answer(answer: &str) -> anyhow::Result<usize> {
    let (head, content) = answer.split_once("\r\n\r\n").context("the header section has no end")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "the status is not 200: {head}");
    ensure!(content == CONTENT, "the content is {content:?}");
    let value = |name: &str| {
        let field = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.trim()).with_context(|| format!("there is no `{name}`"))
    };
    ensure!(value("Content-Length")? == "13", "the `Content-Length` is not 13");
    ensure!(value("Content-Type")?.starts_with("text/plain"), "the `Content-Type` is not `text/plain`");
    value("Server")?;
    value("Date")?;
    Ok(answer.len())
}

#[cfg(test)]
mod tests {
    use super::check_answer;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nserver: a\r\nDate: b\r\nContent-Type: text/plain\r\nContent-Length: 13";

    #[test]
    fn an_answer_as_agreed_has_a_length() {
        let answer = format!("{HEAD}\r\n\r\nHello, World!");
        assert_eq!(check_answer(&answer).unwrap(), answer.len());
    }

    #[test]
    fn an_answer_without_what_was_agreed_is_refused() {
        for missing in ["200", "server: a\r\n", "Date: b\r\n", "Content-Type: text/plain\r\n", "13"] {
            let answer = format!("{}\r\n\r\nHello, World!", HEAD.replace(missing, ""));
            assert!(check_answer(&answer).is_err(), "accepted without {missing:?}");
        }
        assert!(check_answer(&format!("{HEAD}\r\n\r\nHello, World?")).is_err());
    }
}
