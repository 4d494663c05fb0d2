//! Sends log lines to a socket: to a syslog server or to a program that reads lines.
//!
//! If the receiver is slow or absent, the lines wait: one batch here, and the further lines in the bounded
//! buffers of the workers.

use std::io::{self, ErrorKind};
use std::time::Duration;

use thruway_net::Clock;

use super::socket::{LogAddress, LogConnection, count_lines, log_failure};
use super::syslog::SyslogHeader;

/// The sender of the lines of a log.
#[derive(Debug)]
pub(super) struct RemoteSink {
    address: LogAddress,
    syslog: Option<SyslogHeader>,
    connection: Option<LogConnection>,
    /// Lines that are not completely sent.
    lines: Vec<u8>,
    /// Number of bytes of `lines` that are in `frames` or in earlier frames.
    framed: usize,
    frames: Frames,
    /// Time of the next attempt after a failure.
    retry_at: Duration,
    lost: u64,
}

/// Messages to send, each with one line.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Number of sent bytes.
    sent: usize,
    /// Start of the first line of the frames in the lines.
    start: usize,
    /// End of each frame in `bytes`, and end of its line in the lines.
    ends: Vec<(usize, usize)>,
}

impl RemoteSink {
    pub(super) fn new(address: LogAddress, syslog: Option<SyslogHeader>) -> Self {
        Self {
            address,
            syslog,
            connection: None,
            lines: Vec::new(),
            framed: 0,
            frames: Frames::default(),
            retry_at: Duration::ZERO,
            lost: 0,
        }
    }

    pub(super) const fn is_syslog(&self) -> bool {
        self.syslog.is_some()
    }

    /// Sends waiting lines. Returns `true` if no line waits any more.
    pub(super) fn is_ready(&mut self, log: &str) -> bool {
        self.flush(log);
        self.lines.is_empty()
    }

    /// Accepts `lines`, and sends as many as the receiver takes now.
    pub(super) fn write(&mut self, lines: &[u8], log: &str) {
        self.lines.extend_from_slice(lines);
        self.flush(log);
    }

    /// Closes the connection. The next flush opens a new one.
    pub(super) fn reconnect(&mut self) {
        self.disconnect();
        self.retry_at = Duration::ZERO;
    }

    /// Makes a last attempt to send, and counts the remaining lines as lost.
    pub(super) fn close(&mut self, log: &str) {
        self.retry_at = Duration::ZERO;
        self.flush(log);
        self.lost += count_lines(&self.lines[self.frames.sent_line_end()..]);
        self.forget_lines();
    }

    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn flush(&mut self, log: &str) {
        if self.lines.is_empty() || Clock::system().now_exact() < self.retry_at {
            return;
        }
        match self.send_all() {
            Ok(()) => self.forget_lines(),
            // The receiver is slow.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => {
                self.disconnect();
                self.retry_at = Clock::system().now_exact() + RETRY_AFTER;
                log_failure(
                    &error,
                    &format!("cannot send the {log} to {}, trying again each second", self.address),
                );
            }
        }
    }

    fn send_all(&mut self) -> io::Result<()> {
        if self.connection.as_ref().is_some_and(LogConnection::is_closed) {
            self.disconnect();
        }
        loop {
            if self.frames.is_sent() && !self.fill_frames() {
                return Ok(());
            }
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => self.connection.insert(self.address.connect()?),
            };
            match self.frames.send(connection) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_too_long(&error) && !connection.is_stream() => {
                    self.frames.skip();
                    self.lost += 1;
                    log_failure(&error, &format!("cannot send a line of {} bytes", self.frames.bytes.len()));
                }
                sent => sent?,
            }
        }
    }

    /// Creates frames for the next lines. Returns `false` if all lines have frames.
    fn fill_frames(&mut self) -> bool {
        self.frames.restart(self.framed);
        let now = self.syslog.as_ref().map(SyslogHeader::now).unwrap_or_default();
        while self.framed < self.lines.len() && self.frames.bytes.len() < FRAMES_BYTES {
            let rest = &self.lines[self.framed..];
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            match &self.syslog {
                Some(header) => {
                    header.write(&mut self.frames.bytes, &now, rest[..end].trim_ascii_end());
                }
                None => self.frames.bytes.extend_from_slice(&rest[..end]),
            }
            self.framed += end;
            self.frames.ends.push((self.frames.bytes.len(), self.framed));
        }
        !self.frames.ends.is_empty()
    }

    /// Closes the connection. The frame that was only partly sent is sent again.
    fn disconnect(&mut self) {
        self.connection = None;
        self.frames.sent = self.frames.sent_frame_end();
    }

    fn forget_lines(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(KEPT_BYTES_MAX);
        self.framed = 0;
        self.frames.restart(0);
    }
}

impl Frames {
    /// Removes all frames. The first line of the next frames starts at `start`.
    fn restart(&mut self, start: usize) {
        self.bytes.clear();
        self.ends.clear();
        (self.sent, self.start) = (0, start);
    }

    fn is_sent(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Sends some bytes to a stream, or one frame as a datagram.
    fn send(&mut self, connection: &mut LogConnection) -> io::Result<()> {
        let end = if connection.is_stream() { self.bytes.len() } else { self.next_end() };
        match connection.send(&self.bytes[self.sent..end])? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => self.sent += sent,
        }
        Ok(())
    }

    /// Skips the next frame.
    fn skip(&mut self) {
        self.sent = self.next_end();
    }

    fn next_end(&self) -> usize {
        self.ends.iter().map(|(end, _)| *end).find(|end| *end > self.sent).unwrap_or(self.bytes.len())
    }

    /// Returns the end of the last frame that was completely sent.
    fn sent_frame_end(&self) -> usize {
        self.ends.iter().map(|(end, _)| *end).take_while(|end| *end <= self.sent).last().unwrap_or(0)
    }

    /// Returns the end of the last line that was completely sent.
    fn sent_line_end(&self) -> usize {
        let sent = self.ends.iter().take_while(|(end, _)| *end <= self.sent);
        sent.last().map_or(self.start, |(_, line)| *line)
    }
}

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

const FRAMES_BYTES: usize = 64 << 10;
const KEPT_BYTES_MAX: usize = 1 << 20;
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use std::path::Path;

    use super::super::sink::{AccessLogTarget, OpenTarget};
    use super::super::syslog::{Syslog, SyslogAddress, SyslogFacility};
    use thruway_net::LogTarget as _;

    fn syslog(address: SyslogAddress) -> OpenTarget {
        let facility = SyslogFacility::Local7;
        let syslog = Syslog { address, facility, app_name: "thruway".to_owned() };
        AccessLogTarget::Syslog(syslog).open().unwrap()
    }

    fn socket(path: &Path) -> OpenTarget {
        AccessLogTarget::Socket(path.to_owned()).open().unwrap()
    }

    /// Returns the line in a syslog message.
    fn line_of(message: &[u8]) -> String {
        let message = String::from_utf8(message.to_vec()).unwrap();
        assert!(message.starts_with("<190>1 "), "{message}");
        message.split_once(" access - ").unwrap().1.to_owned()
    }

    #[test]
    fn each_line_is_a_datagram_to_the_syslog_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        syslog(SyslogAddress::Unix(path)).write(b"one\ntwo\n");
        let mut bytes = [0; 1024];
        for line in ["one", "two"] {
            let count = receiver.recv(&mut bytes).unwrap();
            assert_eq!(line_of(&bytes[..count]), line);
        }
    }

    #[test]
    fn syslog_over_udp_skips_and_counts_lines_that_are_too_long() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut target = syslog(SyslogAddress::Udp(receiver.local_addr().unwrap().to_string()));
        target.write(&[&b"one\n"[..], &vec![b'a'; 70_000], b"\ntwo\n"].concat());
        let mut bytes = [0; 1024];
        for line in ["one", "two"] {
            let count = receiver.recv(&mut bytes).unwrap();
            assert_eq!(line_of(&bytes[..count]), line);
        }
        assert!(target.is_ready());
        assert_eq!(target.take_lost(), 1);
    }

    #[test]
    fn syslog_over_tcp_has_the_length_before_each_message() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut target = syslog(SyslogAddress::Tcp(listener.local_addr().unwrap().to_string()));
        target.write(b"one\ntwo\n");
        drop(target);
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        for line in ["one", "two"] {
            let space = rest.iter().position(|byte| *byte == b' ').unwrap();
            let length: usize = std::str::from_utf8(&rest[..space]).unwrap().parse().unwrap();
            let (message, next) = rest[space + 1..].split_at(length);
            assert_eq!(line_of(message), line);
            rest = next;
        }
        assert_eq!(rest, b"");
    }

    #[test]
    fn lines_for_a_slow_receiver_wait_and_arrive_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let listener = UnixListener::bind(&path).unwrap();
        let mut lines = String::new();
        for number in 0..200_000 {
            lines.push_str(&number.to_string());
            lines.push('\n');
        }
        let mut target = socket(&path);
        target.write(lines.as_bytes());
        assert!(!target.is_ready(), "the receiver reads nothing");
        let mut receiver = listener.accept().unwrap().0;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            receiver.read_to_string(&mut text).unwrap();
            text
        });
        while !target.is_ready() {}
        assert_eq!(target.take_lost(), 0);
        drop(target);
        assert!(reader.join().unwrap() == lines);
    }

    #[test]
    fn lines_for_a_closed_socket_are_sent_after_its_return() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let listen = || UnixListener::bind(&path).unwrap();
        let mut text = String::new();
        let mut target = socket(&path);
        {
            let listener = listen();
            target.write(b"one\n");
            let mut receiver = listener.accept().unwrap().0;
            let mut bytes = [0; 4];
            receiver.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"one\n");
        }
        std::fs::remove_file(&path).unwrap();
        target.write(b"two\n");
        target.write(b"three\n");
        assert!(!target.is_ready());
        let listener = listen();
        // Skips the delay after the failure.
        target.reopen();
        assert!(target.is_ready());
        assert_eq!(target.take_lost(), 0);
        drop(target);
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "two\nthree\n");
    }

    #[test]
    fn lines_for_an_absent_receiver_are_counted_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("absent");
        for mut target in [socket(&path), syslog(SyslogAddress::Unix(path.clone()))] {
            target.write(b"one\ntwo\n");
            assert!(!target.is_ready());
            target.close();
            assert_eq!(target.take_lost(), 2);
            assert!(target.is_ready());
        }
    }
}
