//! The reading of `llhttp`, from the log that stands in a case.

use anyhow::{Context, Result};

use super::markdown::{Case, FRAGMENT};
use super::reading::{Message, Reading};

/// Reads the log of `case`.
pub(super) fn reading(case: &Case) -> Result<Reading> {
    let mut state = State::default();
    for entry in entries(case) {
        state.take(entry?);
    }
    Ok(state.reading)
}

/// A line of the log.
#[derive(Clone, Copy)]
pub(super) enum Entry<'c> {
    /// A part of the input.
    Span { name: &'c str, bytes: &'c [u8] },
    /// Something is complete, or begins, here.
    Mark { name: &'c str, at: usize },
    /// An error, or the answer to the end of the input.
    End { refusal: Option<&'c str> },
}

/// The lines of a case's log.
pub(super) fn entries(case: &Case) -> impl Iterator<Item = Result<Entry<'_>>> {
    case.log
        .lines()
        .map(move |line| entry(line, &case.bytes).with_context(|| format!("in the log: `{line}`")))
}

fn entry<'c>(line: &'c str, input: &'c [u8]) -> Result<Entry<'c>> {
    let (offset, rest) =
        line.strip_prefix("off=").and_then(|rest| rest.split_once(' ')).context("no offset")?;
    if let Some(finish) = rest.strip_prefix("finish=") {
        return Ok(Entry::End { refusal: (finish == "2").then_some("the end came too early") });
    }
    let at: usize = offset.parse()?;
    if let Some(error) = rest.strip_prefix("error code=") {
        let (code, reason) = error.split_once(" reason=").context("no reason")?;
        // 21 is a pause; 22 a tunnel that begins.
        return Ok(Entry::End { refusal: (!["21", "22"].contains(&code)).then_some(reason) });
    }
    let Some((length, span)) = rest.strip_prefix("len=").and_then(|rest| rest.split_once(" span[")) else {
        return Ok(Entry::Mark { name: rest, at });
    };
    let (name, _) = span.split_once(']').context("no name")?;
    let bytes = input.get(at..at + length.parse::<usize>()?).context("no such bytes")?;
    Ok(Entry::Span { name, bytes })
}

#[derive(Default)]
struct State {
    reading: Reading,
    /// The head, or the trailer section, in the making.
    pending: Message,
    is_in_name: bool,
}

impl State {
    fn take(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Span { name, bytes } => self.take_span(name, bytes),
            Entry::Mark { name, .. } => self.take_mark(name),
            Entry::End { refusal } => self.reading.refusal = refusal.map(str::to_owned),
        }
    }

    fn take_mark(&mut self, name: &str) {
        if let Some(rest) = name.strip_prefix("headers complete ") {
            let mut message = self.take_pending();
            if let Some((status, _)) = rest.strip_prefix("status=").and_then(|rest| rest.split_once(' ')) {
                status.clone_into(&mut message.start_line[0]);
            }
            self.reading.messages.push(message);
        }
        match name {
            "message begin" => self.pending = Message::default(),
            "protocol complete" => self.pending.start_line[2].push('/'),
            "header_field complete" => self.is_in_name = false,
            "message complete" => {
                let trailers = self.take_pending().fields;
                if let Some(message) = self.reading.messages.last_mut() {
                    (message.is_complete, message.trailers) = (true, trailers);
                }
            }
            _ => {}
        }
    }

    /// Several spans of one line belong together.
    fn take_span(&mut self, name: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        match name {
            "method" => self.pending.start_line[0].push_str(&text),
            "url" | "status" => self.pending.start_line[1].push_str(&text),
            "protocol" | "version" => self.pending.start_line[2].push_str(&text),
            "header_field" => {
                if !std::mem::replace(&mut self.is_in_name, true) {
                    self.pending.fields.push(Default::default());
                }
                self.pending.fields.last_mut().expect("pushed above").0.push_str(&text);
            }
            "header_value" => {
                if let Some((_, value)) = self.pending.fields.last_mut() {
                    value.push_str(&text);
                }
            }
            "body" => {
                if let Some(message) = self.reading.messages.last_mut() {
                    message.content.extend_from_slice(bytes);
                }
            }
            _ => {}
        }
    }

    fn take_pending(&mut self) -> Message {
        let mut message = std::mem::take(&mut self.pending);
        message.start_line[1] = message.start_line[1].replace(FRAGMENT, "");
        for (_, value) in &mut message.fields {
            *value = value.trim_matches([' ', '\t']).to_owned();
        }
        message
    }
}
