//! Messages for people: the result and the error of a command, and texts of servers without control
//! characters.

use std::fmt::{self, Write as _};
use std::io::{Write as _, stdout};
use std::process::ExitCode;

/// The reason why a command failed, and the next step of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandError {
    message: String,
    hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the next step of the user, if the command knows it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// Prints the result of a command. If the reader has closed the pipe, the exit code reports this.
pub(crate) fn print(text: &str) -> ExitCode {
    let written = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns `text` with visible escapes in place of control characters and of characters that change the
/// direction of text. Keeps line feeds and tabs. Cuts the text after `bytes_max` bytes.
pub(crate) fn escaped(text: &str, bytes_max: usize) -> String {
    let kept = &text[..text.floor_char_boundary(bytes_max)];
    let mut output = String::with_capacity(kept.len());
    for character in kept.chars() {
        if is_plain(character) {
            output.push(character);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(output, "{}", character.escape_unicode());
        }
    }
    if kept.len() < text.len() {
        let _ = write!(output, "… ({} more bytes)", text.len() - kept.len());
    }
    output
}

/// Returns `text` like [`escaped`], but on one line.
pub(crate) fn escaped_line(text: &str, bytes_max: usize) -> String {
    escaped(text, bytes_max).replace('\n', "\\n").replace('\t', "\\t")
}

fn is_plain(character: char) -> bool {
    matches!(character, '\n' | '\t')
        || !(character.is_control()
            || matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
            || matches!(character, '\u{FEFF}' | '\u{E0000}'..='\u{E007F}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_become_visible() {
        assert_eq!(escaped("a\u{1b}[2J\u{202e}b\tü\n", 100), "a\\u{1b}[2J\\u{202e}b\tü\n");
        assert_eq!(escaped("\u{9b}\u{200b}\u{e0041}\r", 100), "\\u{9b}\\u{200b}\\u{e0041}\\u{d}");
        assert_eq!(escaped_line("a\n\tb", 100), "a\\n\\tb");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(escaped("äää", 3), "ä… (4 more bytes)");
        assert_eq!(escaped("abc", 3), "abc");
    }
}
