//! One client on a pair of streams.

use std::io;

use thruway_mcp::json_rpc::{Error, ErrorCode, write_error};
use tokio::sync::mpsc;

use super::input::Input;
use super::lines::{LINE_BYTES_MAX, Line, Lines};
use super::output::Output;
use crate::authorization::Caller;
use crate::connection::Connection;
use crate::server::McpServer;

/// Serves a client until it has closed the input and everything is answered.
pub(crate) async fn serve(server: McpServer, mut input: Input, mut output: Output) -> io::Result<()> {
    let (mut connection, mut messages) = Connection::new(server);
    let _cancel = connection.cancel_at_end();
    let mut lines = Lines::default();
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
                while handle_lines(&mut connection, &mut lines, &mut answers) {
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
        handle_line(&mut connection, line, &mut answers);
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
fn handle_lines(connection: &mut Connection, lines: &mut Lines, answers: &mut Vec<u8>) -> bool {
    while let Some(line) = lines.next() {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Passed(_) => {}
            Line::Whole(line) => handle_line(connection, line, answers),
            Line::TooLong => {
                let reason = format!("a message may have {LINE_BYTES_MAX} octets");
                write_error(answers, None, &Error::new(ErrorCode::INVALID_REQUEST, reason));
                answers.push(b'\n');
            }
        }
        if answers.len() > IDLE_BYTES_MAX {
            return true;
        }
    }
    false
}

fn handle_line(connection: &mut Connection, line: &[u8], answers: &mut Vec<u8>) {
    let start = answers.len();
    connection.handle_message(&Caller::Local, line, answers);
    if answers.len() > start {
        answers.push(b'\n');
    }
}

fn append_line(answers: &mut Vec<u8>, message: Vec<u8>) {
    answers.extend(message);
    answers.push(b'\n');
}

/// More answers than this are sent before the next message is handled; a larger buffer is given back when there is nothing
/// in it.
const IDLE_BYTES_MAX: usize = 256 << 10;
