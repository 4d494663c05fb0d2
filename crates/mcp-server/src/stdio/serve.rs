//! One client on a pair of streams.

use std::io;

use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error};
use thruway_mcp::stdio::{Line, Lines, Passed};
use tokio::sync::mpsc;

use super::standard_streams::{Input, Output};
use crate::authorization::Caller;
use crate::connection::Connection;
use crate::server::McpServer;

/// Serves a client until it has closed the input and everything is answered.
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
            read = input.read(lines.room()) => {
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

/// Answers what is being handled.
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

/// Handles the lines that are there, until the answers are enough to be sent; whether there may be more.
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
        // Its id, which the client needs to match the error, shows at its end.
        Line::TooLong => {}
        Line::Passed(passed) => refuse_too_large(&passed, bytes_max, answers),
    }
    if answers.len() > start {
        answers.push(b'\n');
    }
}

/// Appends the error for a message that was too large. Notifications and answers get none: the client would
/// not know what to do with it.
fn refuse_too_large(passed: &Passed, bytes_max: usize, answers: &mut Vec<u8>) {
    let id = match passed {
        Passed::Request(id) => Some(Id::from(id)),
        Passed::Unknown => None,
        Passed::Answer(_) | Passed::Other => {
            tracing::warn!(bytes_max, "a message of the client was dropped, because it is too large");
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

/// More answers than this are sent before the next message is handled; a larger buffer is given back when
/// there is nothing in it.
const IDLE_BYTES_MAX: usize = 256 << 10;
