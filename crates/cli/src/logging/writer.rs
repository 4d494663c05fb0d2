//! Writer for log messages. A thread that logs a message waits neither for a slow terminal nor for a full
//! pipe.

use std::io::{self, Write};
use std::sync::Arc;

use thruway_message::mask_userinfo;
use thruway_net::{LogBuffer, LogTarget, LogWriter, LogWriterConfig};
use tracing_subscriber::fmt::MakeWriter;

/// Passes log messages to the log thread. All clones write to the same target.
#[derive(Clone)]
pub(super) struct MessageWriter {
    writer: Arc<LogWriter<()>>,
    buffer: Arc<LogBuffer<()>>,
}

impl MessageWriter {
    /// Starts the thread that writes to `target`.
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let writer = LogWriter::start(WRITER_CONFIG, (), MessageTarget(target))?;
        let buffer = writer.add_buffer();
        Ok(Self { writer: Arc::new(writer), buffer })
    }

    /// Waits for the log thread to write all messages, but no longer than one second.
    pub(super) fn finish(&self) {
        self.writer.flush();
    }
}

/// Each call of `write` logs one line. `write` masks credentials in URLs. Without this step, every caller
/// would have to mask them.
impl Write for &MessageWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let masked = str::from_utf8(line).map(mask_userinfo);
        let masked = masked.as_ref().map_or(line, |text| text.as_bytes());
        self.writer.append_line(&self.buffer, masked);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for MessageWriter {
    type Writer = &'w Self;

    fn make_writer(&'w self) -> Self::Writer {
        self
    }
}

struct MessageTarget<W>(W);

impl<W: Write + Send> LogTarget for MessageTarget<W> {
    fn write(&mut self, bytes: &[u8]) {
        // A write error is ignored, because there is no other place to report it.
        let _ = self.0.write_all(bytes);
    }

    fn report_dropped(&mut self, lines: u64) {
        tracing::warn!(lines, "the log target is too slow, dropped lines");
    }
}

const WRITER_CONFIG: LogWriterConfig = LogWriterConfig {
    thread_name: "log",
    // This size is enough for about ten thousand lines.
    buffer_bytes_max: 1 << 20,
    kept_bytes_max: 16 << 10,
    write_every: None,
};

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Sends every byte that the writer receives to the test.
    struct Reader(Sender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log line of a URL that could not be fetched once contained its password.
    #[test]
    fn credentials_in_urls_are_masked() {
        let (written, found) = channel();
        let writer = MessageWriter::start(Reader(written)).unwrap();
        (&writer).write_all(b"`http://bob:sesame@a.example/` failed\n").unwrap();
        writer.finish();
        assert_eq!(found.recv().unwrap(), b"`http://**********@a.example/` failed\n");
    }
}
