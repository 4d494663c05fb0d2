//! Shows the progress of the loads of a command.

use std::cell::RefCell;
use std::env;
use std::io::{IsTerminal, Write, stderr, stdout};

use ratatui_core::terminal::Terminal;
use ratatui_core::text::Text;

use super::screen::{Screen, size};
use super::view::View;
use crate::progress::Progress;
use crate::run::Load;

/// The progress of the loads of a command, on the standard error. Shows a screen with a histogram if the standard
/// output and the standard error are a terminal with at least 40 columns and 12 rows. Otherwise, shows one line if
/// the standard error is a terminal, or nothing. Ignores write errors, because a load does not need its display.
pub struct ProgressDisplay {
    is_line: bool,
    is_screen: bool,
    state: RefCell<DisplayState>,
}

#[derive(Default)]
struct DisplayState {
    /// Text before the progress, such as the name of the current target. May be empty.
    name: String,
    past: Vec<String>,
    /// `true` if the progress line is visible.
    has_line: bool,
    terminal: Option<Terminal<Screen>>,
}

impl ProgressDisplay {
    /// Creates the display. Without `may_use_screen`, shows at most one line.
    pub fn new(may_use_screen: bool) -> Self {
        let is_line = stderr().is_terminal();
        let is_large = size().is_some_and(|size| size.width >= COLUMNS_MIN && size.height >= ROWS_MIN);
        let is_smart = env::var_os("TERM").is_some_and(|name| name != "dumb" && !name.is_empty());
        let is_screen = may_use_screen && is_line && stdout().is_terminal() && is_large && is_smart;
        Self { is_line, is_screen, state: RefCell::default() }
    }

    /// Begins the next load of the command. `name` describes the load.
    pub fn begin(&self, name: impl Into<String>) {
        self.state.borrow_mut().name = name.into();
    }

    /// Adds a line about a finished load.
    pub fn note(&self, line: impl Into<String>) {
        self.state.borrow_mut().past.push(line.into());
    }

    /// Shows the progress of the current load.
    pub fn show(&self, load: &Load, progress: &Progress) {
        let line = progress.describe(load.limit);
        if !self.is_screen {
            return self.say(&line);
        }
        let state = &mut *self.state.borrow_mut();
        if state.terminal.is_none() {
            state.terminal = Screen::open().and_then(Terminal::new).ok();
        }
        let Some(terminal) = &mut state.terminal else { return };
        let (name, past) = (state.name.trim_end(), &state.past[..]);
        let view = View { name, progress: &line, details: &progress.details, past };
        let _ = terminal.draw(|frame| {
            let area = frame.area();
            frame.render_widget(Text::from(view.lines(area.width.into(), area.height.into())), area);
        });
    }

    /// Shows the name of the current load and then `text`, in one line.
    pub fn say(&self, text: &str) {
        if self.is_line && self.state.borrow().terminal.is_none() {
            // The line is cut to the width of the terminal, because the escape sequence erases only one line.
            let columns = size().map_or(usize::MAX, |size| usize::from(size.width));
            let line = cut(&format!("{}{text}", self.state.borrow().name), columns);
            self.state.borrow_mut().has_line = true;
            let _ = write!(stderr(), "\r\x1b[2K{line}");
        }
    }

    /// Erases the progress, and restores the terminal.
    pub fn finish(&self) {
        let mut state = self.state.borrow_mut();
        state.terminal = None;
        if std::mem::take(&mut state.has_line) {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.finish();
    }
}

fn cut(line: &str, columns: usize) -> String {
    let columns = if columns == 0 { usize::MAX } else { columns };
    line.chars().take(columns.saturating_sub(1)).collect()
}

const COLUMNS_MIN: u16 = 40;
const ROWS_MIN: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_is_cut_to_terminal_width() {
        assert_eq!(cut("1234567 µs", 9), "1234567 ");
        assert_eq!(cut("12", usize::MAX), "12");
        // The width of the terminal is unknown.
        assert_eq!(cut("12", 0), "12");
    }
}
