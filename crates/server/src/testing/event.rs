//! Server-sent events in tests (HTML Living Standard §9.2.6).

use std::time::Duration;

/// A received server-sent event.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TestEvent {
    /// Type of the event. An empty type means `message`.
    pub event: String,
    /// Data of the event. If the event has several `data` lines, a line feed separates them.
    pub data: String,
    /// Id of this event, or of the last event before with an id. Empty if no event had an id.
    pub id: String,
    /// Time to wait before reconnecting, if this event sets it.
    pub retry: Option<Duration>,
}

/// The received part of an event stream.
#[derive(Default)]
pub(super) struct EventParser {
    received: Vec<u8>,
    is_after_start: bool,
    id: String,
}

impl EventParser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the next complete event with data. Ignores comments and unknown fields.
    pub(super) fn next(&mut self) -> Option<TestEvent> {
        while let Some(lines) = self.next_block() {
            let mut event = TestEvent::default();
            let mut has_data = false;
            for line in lines.iter().map(|line| String::from_utf8_lossy(line)) {
                let (name, value) = line.split_once(':').unwrap_or((&line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match name {
                    "event" => value.clone_into(&mut event.event),
                    "data" => {
                        if std::mem::replace(&mut has_data, true) {
                            event.data.push('\n');
                        }
                        event.data.push_str(value);
                    }
                    "id" if !value.contains('\0') => value.clone_into(&mut self.id),
                    "retry" => event.retry = value.parse().map(Duration::from_millis).ok().or(event.retry),
                    _ => {}
                }
            }
            if has_data {
                event.id.clone_from(&self.id);
                return Some(event);
            }
        }
        None
    }

    /// Removes the lines up to the next empty line. Returns `None` if this line has not arrived.
    fn next_block(&mut self) -> Option<Vec<Vec<u8>>> {
        if !std::mem::replace(&mut self.is_after_start, !self.received.is_empty())
            && let Some(rest) = self.received.strip_prefix("\u{feff}".as_bytes())
        {
            self.received = rest.to_vec();
        }
        let (mut lines, mut start) = (Vec::new(), 0);
        loop {
            let line = &self.received[start..];
            let length = line.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
            // A CR at the end of the input may be the first half of CRLF.
            let end = match line[length..] {
                [b'\r', b'\n', ..] => 2,
                [b'\r'] => return None,
                _ => 1,
            };
            start += length + end;
            if length == 0 {
                self.received.drain(..start);
                return Some(lines);
            }
            lines.push(line[..length].to_vec());
        }
    }
}
