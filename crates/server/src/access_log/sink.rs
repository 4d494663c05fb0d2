//! Targets of access logs.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use thruway_net::LogTarget;

use super::remote::RemoteSink;
use super::socket::{LogAddress, count_lines, log_failure};
use super::syslog::{Syslog, SyslogAddress, SyslogHeader};

/// Target of an access log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessLogTarget {
    /// A file to which the log appends lines. A new file gets mode 0640, reduced by the umask of the process,
    /// because log lines may contain personal data. If log rotation has moved the file away, the log creates
    /// a new file before it writes the next lines, or when it is [reopened](crate::AccessLog::reopen).
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// A Unix stream socket of another program, which reads one line after the other. While the program is
    /// absent or slow, the lines wait in bounded buffers.
    Socket(PathBuf),
    /// A syslog server. Lines wait as for `Socket`.
    Syslog(Syslog),
}

impl AccessLogTarget {
    /// Opens the target, for [`AccessLog::replace`](crate::AccessLog::replace). Does not connect to sockets
    /// and syslog servers yet.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self) -> io::Result<OpenTarget> {
        OpenTarget::open(self)
    }
}

/// An open target of an access log, or of another log.
#[derive(Debug)]
pub struct OpenTarget {
    sink: Sink,
    /// The name of the log in messages.
    log: Cow<'static, str>,
    lost: u64,
}

#[derive(Debug)]
enum Sink {
    File {
        path: PathBuf,
        file: File,
        /// `true` if a failed write has written only a part of a line.
        is_torn: bool,
    },
    Stdout,
    Remote(Box<RemoteSink>),
}

impl OpenTarget {
    pub(super) fn open(target: &AccessLogTarget) -> io::Result<Self> {
        let sink = match target {
            AccessLogTarget::File(path) => {
                Sink::File { path: path.clone(), file: append_to(path)?, is_torn: false }
            }
            AccessLogTarget::Stdout => Sink::Stdout,
            AccessLogTarget::Socket(path) => remote(LogAddress::UnixStream(path.clone()), None),
            AccessLogTarget::Syslog(syslog) => {
                let address = match &syslog.address {
                    SyslogAddress::Unix(path) => LogAddress::UnixDatagram(path.clone()),
                    SyslogAddress::Udp(name) => LogAddress::Udp(name.clone()),
                    SyslogAddress::Tcp(name) => LogAddress::Tcp(name.clone()),
                };
                remote(address, Some(SyslogHeader::new(syslog)))
            }
        };
        Ok(Self { sink, log: Cow::Borrowed("access log"), lost: 0 })
    }

    /// Sets the name of the log in messages. Default: `access log`.
    #[must_use]
    pub fn named(self, log: impl Into<Cow<'static, str>>) -> Self {
        Self { log: log.into(), ..self }
    }

    /// Returns `true` for a syslog server.
    pub(super) fn is_syslog(&self) -> bool {
        matches!(&self.sink, Sink::Remote(remote) if remote.is_syslog())
    }

    /// Creates a new file if the current file was moved away.
    fn follow_path(&mut self) {
        if let Sink::File { path, file, .. } = &mut self.sink {
            reopen_if_moved(path, file, &self.log);
        }
    }
}

impl LogTarget for OpenTarget {
    fn reopen(&mut self) {
        self.follow_path();
        if let Sink::Remote(remote) = &mut self.sink {
            remote.reconnect();
        }
        tracing::info!("{} reopened", self.log);
    }

    fn is_ready(&mut self) -> bool {
        match &mut self.sink {
            Sink::Remote(remote) => remote.is_ready(&self.log),
            Sink::File { .. } | Sink::Stdout => true,
        }
    }

    /// Writes `bytes`. If the write to a file or to the standard output fails, the bytes are lost and
    /// counted, and the error is logged.
    fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.follow_path();
        let outcome = match &mut self.sink {
            Sink::File { file, is_torn, .. } => append(file, is_torn, bytes),
            Sink::Stdout => io::stdout().lock().write_all(bytes).map_err(|error| (error, bytes)),
            Sink::Remote(remote) => {
                remote.write(bytes, &self.log);
                Ok(())
            }
        };
        if let Err((error, rest)) = outcome {
            self.lost += count_lines(rest);
            log_failure(&error, &format!("cannot write the {}", self.log));
        }
    }

    fn take_lost(&mut self) -> u64 {
        let remote = match &mut self.sink {
            Sink::Remote(remote) => remote.take_lost(),
            Sink::File { .. } | Sink::Stdout => 0,
        };
        remote + std::mem::take(&mut self.lost)
    }

    fn close(&mut self) {
        if let Sink::Remote(remote) = &mut self.sink {
            remote.close(&self.log);
        }
    }

    fn report_dropped(&mut self, lines: u64) {
        tracing::warn!(lines, "the {} is too slow: lines were dropped", self.log);
    }
}

fn remote(address: LogAddress, syslog: Option<SyslogHeader>) -> Sink {
    Sink::Remote(Box::new(RemoteSink::new(address, syslog)))
}

/// Appends `bytes` to a log file. If this fails, returns the error and the lines that are not complete in the
/// file. `is_torn` is `true` if the file ends with an incomplete line, which then first gets a line break.
fn append<'b>(
    mut file: impl Write,
    is_torn: &mut bool,
    bytes: &'b [u8],
) -> Result<(), (io::Error, &'b [u8])> {
    if *is_torn {
        file.write_all(b"\n").map_err(|error| (error, bytes))?;
        *is_torn = false;
    }
    let mut written = 0;
    while written < bytes.len() {
        let error = match file.write(&bytes[written..]) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                written += count;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        *is_torn = written > 0 && bytes[written - 1] != b'\n';
        return Err((error, &bytes[written..]));
    }
    Ok(())
}

/// Opens the file at `path`. Without `NONBLOCK`, the open of a named pipe would wait for a reader.
fn append_to(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().create(true).append(true).mode(MODE).custom_flags(flags).open(path);
    let file = opened.map_err(|error| with_reason(error, path))?;
    // The thread of the log may wait for a full pipe.
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// Replaces the message of `ENXIO`, which the open of pipes and sockets returns.
fn with_reason(error: io::Error, path: &Path) -> io::Error {
    if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) {
        return error;
    }
    let is_socket = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    io::Error::new(error.kind(), if is_socket { SOCKET } else { PIPE })
}

const SOCKET: &str = "this file is a socket: set `socket` or `syslog` in place of `path`";
const PIPE: &str = "no program reads this named pipe: start the reader first";

/// Mode of a new log file: the owner may read and write, the group may read. Other users may not read it,
/// because log lines contain addresses, user names and query strings.
const MODE: u32 = 0o640;

/// Creates a new file at `path` if `path` no longer refers to the open file. `log` is the name of the log.
fn reopen_if_moved(path: &Path, file: &mut File, log: &str) {
    let is_same = match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(open)) => (there.dev(), there.ino()) == (open.dev(), open.ino()),
        _ => false,
    };
    if is_same {
        return;
    }
    match append_to(path) {
        Ok(new) => *file = new,
        Err(error) => {
            log_failure(
                &error,
                &format!("cannot reopen the {log} `{}`, keeping the old file", path.display()),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file on a disk with limited space.
    struct Disk {
        free: usize,
        bytes: Vec<u8>,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.free);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.free -= count;
            self.bytes.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_disk_loses_counted_lines_and_joins_no_lines() {
        let mut disk = Disk { free: 8, bytes: Vec::new() };
        let mut is_torn = false;
        let mut lost = |disk: &mut Disk, bytes| {
            append(disk, &mut is_torn, bytes).map_or_else(|(_, rest)| count_lines(rest), |()| 0)
        };
        assert_eq!(lost(&mut disk, b"12345\nabc\ndef\n"), 2);
        assert_eq!(lost(&mut disk, b"ghi\n"), 1);
        disk.free = 100;
        assert_eq!(lost(&mut disk, b"jkl\n"), 0);
        assert_eq!(String::from_utf8_lossy(&disk.bytes), "12345\nab\njkl\n");
    }

    /// Regression test: the open waited until a program read the pipe, so the start and the reload never ended.
    #[test]
    fn named_pipe_without_reader_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let (sender, opened) = std::sync::mpsc::channel();
        let target = AccessLogTarget::File(path.clone());
        std::thread::spawn(move || sender.send(OpenTarget::open(&target).err()));
        let error = opened.recv_timeout(std::time::Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(error.to_string(), "no program reads this named pipe: start the reader first");

        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut target = OpenTarget::open(&AccessLogTarget::File(path)).unwrap();
        target.write(b"one\n");
        assert_eq!(target.take_lost(), 0);
        let mut line = [0; 4];
        io::Read::read_exact(&mut &reader, &mut line).unwrap();
        assert_eq!(&line, b"one\n");
    }

    #[test]
    fn socket_as_a_log_file_is_refused_with_the_right_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = OpenTarget::open(&AccessLogTarget::File(path)).unwrap_err();
        assert_eq!(error.to_string(), "this file is a socket: set `socket` or `syslog` in place of `path`");
    }

    /// A new log file was once readable by every user of the machine, also after a rotation.
    #[test]
    fn new_or_rotated_log_file_is_not_readable_by_other_users() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let mut target = OpenTarget::open(&AccessLogTarget::File(path.clone())).unwrap();
        let first = mode();
        std::fs::rename(&path, directory.path().join("access.log.1")).unwrap();
        target.reopen();
        for mode in [first, mode()] {
            assert_eq!(mode & 0o137, 0, "{mode:o}");
            assert_eq!(mode & 0o600, 0o600, "{mode:o}");
        }
    }
}
