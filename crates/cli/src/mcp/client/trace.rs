//! `--trace`: prints each message to the standard error, with the time since the start of the command.

use std::time::Duration;

use thruway_mcp_sdk::Direction;
use thruway_net::Clock;

use super::print::to_stderr;

/// Returns a callback that prints each MCP message to the standard error.
pub(super) fn tracer() -> impl Fn(Direction, &[u8]) + Send + Sync + 'static {
    let began = now();
    move |direction, bytes| {
        to_stderr(&line(now().saturating_sub(began), direction, bytes));
    }
}

fn now() -> Duration {
    Clock::system().now_exact()
}

fn line(elapsed: Duration, direction: Direction, bytes: &[u8]) -> String {
    let arrow = match direction {
        Direction::Sent => "-->",
        Direction::Received => "<--",
    };
    let text = escaped(String::from_utf8_lossy(bytes).trim_end());
    format!("{:>10.3} ms {arrow} {text}", elapsed.as_secs_f64() * 1000.0)
}

/// Escapes control characters, so that a message cannot control the terminal.
fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timestamps once had the resolution of the clock tick and were up to four milliseconds old.
    #[test]
    fn trace_timestamps_are_finer_than_a_clock_tick() {
        let mut times: Vec<_> = (0..1000).map(|_| now()).collect();
        times.dedup();
        assert!(times.len() > 10, "{times:?}");
    }

    #[test]
    fn traced_message_is_one_line_without_control_characters() {
        let bytes = "{\"a\":\"\u{1b}[2Jü\"}\n".as_bytes();
        let line = line(Duration::from_micros(1500), Direction::Sent, bytes);
        assert_eq!(line, "     1.500 ms --> {\"a\":\"\\u{1b}[2Jü\"}");
    }
}
