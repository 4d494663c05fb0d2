//! Serves one client over an input stream and an output stream.

use std::io;

use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error};
use thruway_mcp::stdio::{Line, Lines, SkippedMessage};
use tokio::sync::mpsc;

use super::standard_streams::{Input, Output};
use crate::authorization::Caller;
use crate::connection::Connection;
use crate::server::McpServer;

/// Serves a client until the client has closed the input and the server has answered all requests.
pub(crate) async fn serve(server: McpServer, mut input: Input, mut output: Output) -> io::Result<()> {
    let bytes_max = server.core.options.message_bytes_max;
    let (mut connection, mut messages) = Connection::new(server);
    let _cancel = connection.cancel_at_end();
    let mut lines = Lines::with_bytes_max(bytes_max);
    let mut answers = Vec::new();
    loop {
        tokio::select! {
            Some(message) = messages.recv() => {
                append_line(&mut answers, message);
                while answers.len() <= IDLE_BYTES_MAX && let Ok(message) = messages.try_recv() {
                    append_line(&mut answers, message);
                }
            }
            read = input.read(lines.input_buffer()) => {
                if read? == 0 {
                    break;
                }
                while handle_lines(&mut connection, &mut lines, bytes_max, &mut answers) {
                    output.write(&answers).await?;
                    answers.clear();
                }
            }
        }
        output.write(&answers).await?;
        answers.clear();
        answers.shrink_to(IDLE_BYTES_MAX);
    }
    if let Some(line) = lines.rest() {
        handle_line(&mut connection, line, bytes_max, &mut answers);
        output.write(&answers).await?;
    }
    finish(connection, messages, &mut output).await
}

/// Sends the remaining answers after the end of the input.
async fn finish(
    connection: Connection,
    mut messages: mpsc::Receiver<Vec<u8>>,
    output: &mut Output,
) -> io::Result<()> {
    connection.finish();
    while let Some(mut message) = messages.recv().await {
        message.push(b'\n');
        output.write(&message).await?;
    }
    Ok(())
}

/// Handles the buffered lines until no line remains, or until the answers must be sent. Returns `true` if
/// more lines may be in the buffer.
fn handle_lines(
    connection: &mut Connection,
    lines: &mut Lines,
    bytes_max: usize,
    answers: &mut Vec<u8>,
) -> bool {
    while let Some(line) = lines.next_line() {
        handle_line(connection, line, bytes_max, answers);
        if answers.len() > IDLE_BYTES_MAX {
            return true;
        }
    }
    false
}

fn handle_line(connection: &mut Connection, line: Line<'_>, bytes_max: usize, answers: &mut Vec<u8>) {
    let start = answers.len();
    match line {
        Line::Whole(line) if line.trim_ascii().is_empty() => {}
        Line::Whole(line) => connection.handle_message(&Caller::Local, line, answers),
        // Wait for the end of the line: the parser then reports the line again, with the request id for the
        // error.
        Line::TooLong => {}
        Line::SkippedMessage(passed) => refuse_too_large(&passed, bytes_max, answers),
    }
    if answers.len() > start {
        answers.push(b'\n');
    }
}

/// Appends the error for a message that was too large. Notifications and responses get no error, because
/// the client could not match the error to a request.
fn refuse_too_large(passed: &SkippedMessage, bytes_max: usize, answers: &mut Vec<u8>) {
    let id = match passed {
        SkippedMessage::Request(id) => Some(Id::from(id)),
        SkippedMessage::Unknown => None,
        SkippedMessage::Answer(_) | SkippedMessage::Other => {
            tracing::warn!(bytes_max, "dropped a message of the client: it is too large");
            return;
        }
    };
    let reason = format!("the message is larger than {bytes_max} bytes");
    write_error(answers, id.as_ref(), &Error::new(ErrorCode::INVALID_REQUEST, reason));
}

fn append_line(answers: &mut Vec<u8>, message: Vec<u8>) {
    answers.extend(message);
    answers.push(b'\n');
}

/// If the answers have at least this size in bytes, the server sends them before it handles the next message.
/// After sending, the server shrinks larger buffers to this size.
const IDLE_BYTES_MAX: usize = 256 << 10;
