//! Reads event streams (server-sent events, WHATWG HTML §9.2.5 and §9.2.6).

use std::collections::VecDeque;
use std::time::Duration;

use super::error::ClientError;
use super::response::Response;

/// One event of a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Event {
    /// The event type. An empty type means `message`.
    pub event: String,
    /// The data. If the event has several `data` lines, a line feed separates them.
    pub data: String,
    /// The most recent id in the stream, including the id of this event. Empty if the stream has not sent
    /// an id.
    pub id: String,
}

/// The events of a response, one after the other.
///
/// ```no_run
/// # async fn example() -> Result<(), thruway_client::ClientError> {
/// use thruway_client::Client;
///
/// let response = Client::new().get("http://127.0.0.1:8080/events").send().await?;
/// let mut events = response.events();
/// while let Some(event) = events.next().await {
///     println!("{}", event?.data);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Events {
    response: Response,
    decoder: EventDecoder,
}

impl Response {
    /// Reads the body as an event stream.
    pub fn events(self) -> Events {
        Events { response: self, decoder: EventDecoder::new(EVENT_BYTES_MAX) }
    }
}

impl Events {
    /// Sets the maximum size of an event in bytes. The default is 4 MiB.
    pub fn event_bytes_max(mut self, bytes: usize) -> Self {
        self.decoder.event_bytes_max = bytes;
        self
    }

    /// Makes [`next`](Self::next) return [`ClientError::EventsInvalid`] at a line that begins with `{`.
    /// No field of an event stream begins with `{`. A server that sends such a line sends JSON lines
    /// instead of events. By default, `next` ignores unknown lines (WHATWG HTML §9.2.6).
    pub fn refuse_json_lines(mut self) -> Self {
        self.decoder.refuses_json_lines = true;
        self
    }

    /// Returns the next event, or `None` at the end of the stream. Drops an incomplete event at the end.
    ///
    /// # Errors
    /// Returns an error if the exchange failed, or if an event is too large.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub async fn next(&mut self) -> Option<Result<Event, ClientError>> {
        loop {
            if let Some(event) = self.decoder.events.pop_front() {
                return Some(Ok(event));
            }
            let decoder = &mut self.decoder;
            match self.response.read_with(|content| Some(decoder.feed(content))).await {
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(error))) | Err(error) => return Some(Err(error)),
                Ok(None) => return None,
            }
        }
    }

    /// Returns the time to wait before reconnecting, or `None` if the stream has not set this time.
    pub const fn retry(&self) -> Option<Duration> {
        self.decoder.retry
    }

    /// Returns the most recent id in the stream. When reconnecting, send this id in the `Last-Event-ID`
    /// field.
    pub fn last_event_id(&self) -> &str {
        &self.decoder.id
    }
}

/// Decodes lines and events. The stream can be split into pieces at any position.
#[derive(Debug)]
struct EventDecoder {
    line: Vec<u8>,
    /// `true` if the previous line ended with CR. If an LF follows, the LF belongs to the same line end.
    is_after_carriage_return: bool,
    is_after_first_line: bool,
    event: String,
    data: String,
    id: String,
    retry: Option<Duration>,
    events: VecDeque<Event>,
    event_bytes_max: usize,
    refuses_json_lines: bool,
}

impl EventDecoder {
    const fn new(event_bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            is_after_carriage_return: false,
            is_after_first_line: false,
            event: String::new(),
            data: String::new(),
            id: String::new(),
            retry: None,
            events: VecDeque::new(),
            event_bytes_max,
            refuses_json_lines: false,
        }
    }

    /// Decodes a piece of the stream, and stores complete events in `events`.
    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_after_carriage_return)
                && let [b'\n', rest @ ..] = bytes
            {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.event_bytes_max {
                return Err(ClientError::EventTooLarge);
            }
            self.line.extend_from_slice(part);
            if self.refuses_json_lines && self.line.starts_with(b"{") {
                return Err(ClientError::EventsInvalid);
            }
            bytes = rest;
            if let [line_end, rest @ ..] = rest {
                self.is_after_carriage_return = *line_end == b'\r';
                self.end_line();
                bytes = rest;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let is_first = !std::mem::replace(&mut self.is_after_first_line, true);
        let text = if is_first { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        match text.split_once(':') {
            _ if text.is_empty() => self.dispatch(),
            Some((name, value)) => self.take_field(name, value.strip_prefix(' ').unwrap_or(value)),
            None => self.take_field(text, ""),
        }
        self.line = line;
        self.line.clear();
    }

    fn take_field(&mut self, name: &str, value: &str) {
        match name {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().map(Duration::from_millis).ok().or(self.retry);
            }
            _ => {}
        }
    }

    /// Ends an event when an empty line arrives. Drops an event without data.
    fn dispatch(&mut self) {
        let (event, mut data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        if data.pop().is_some() {
            self.events.push_back(Event { event, data, id: self.id.clone() });
        }
    }
}

const EVENT_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Event>, String, Option<Duration>) {
        let mut decoder = EventDecoder::new(100);
        pieces.into_iter().for_each(|piece| decoder.feed(piece).unwrap());
        (decoder.events.into(), decoder.id, decoder.retry)
    }

    fn event(event: &str, data: &str, id: &str) -> Event {
        Event { event: event.into(), data: data.into(), id: id.into() }
    }

    const STREAM: &str = "\u{feff}data: first\r\n\r\n: a comment\nevent: add\rdata:a\rdata: b\r\rid: 7\ndata\n\n\
        retry: 250\r\nretry: soon\r\nnothing: here\r\n\r\nevent: lost\n\nid: 8\r\ndata:  é\r\n\r\ndata: cut off\n";

    #[test]
    fn events_do_not_depend_on_how_the_stream_is_split() {
        let bytes = STREAM.as_bytes();
        let whole = decode([bytes]);
        let events =
            [event("", "first", ""), event("add", "a\nb", ""), event("", "", "7"), event("", " é", "8")];
        assert_eq!(whole, (events.into(), "8".into(), Some(Duration::from_millis(250))));
        for size in 1..bytes.len() {
            assert_eq!(decode(bytes.chunks(size)), whole, "cut into {size}");
        }
        for place in 0..bytes.len() {
            assert_eq!(decode([&bytes[..place], &bytes[place..]]), whole, "cut at {place}");
        }
    }

    #[test]
    fn json_lines_are_rejected_if_configured_and_earlier_events_are_kept() {
        let stream = b"data: {\"a\": 1}\n\n{\"a\": 2}\n";
        assert_eq!(decode([&stream[..]]).0, [event("", "{\"a\": 1}", "")]);
        for size in 1..=stream.len() {
            let mut decoder = EventDecoder { refuses_json_lines: true, ..EventDecoder::new(100) };
            let outcome = stream.chunks(size).try_for_each(|piece| decoder.feed(piece));
            assert_eq!((outcome, decoder.events.len()), (Err(ClientError::EventsInvalid), 1), "{size}");
        }
    }

    #[test]
    fn event_size_is_limited_and_stream_size_is_not() {
        assert_eq!(decode([&b"data: x\n\n"[..]; 100]).0.len(), 100);
        let mut decoder = EventDecoder::new(100);
        let outcome = (0..20).try_for_each(|_| decoder.feed(b"data: 0123456789\n"));
        assert_eq!(outcome, Err(ClientError::EventTooLarge));
        assert_eq!(EventDecoder::new(100).feed(&[b'a'; 101]), Err(ClientError::EventTooLarge));
    }
}
