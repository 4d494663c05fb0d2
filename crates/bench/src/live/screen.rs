//! The alternate screen of a terminal, as a backend of `ratatui`. Uses escape sequences of ECMA-48 and xterm.

use std::io::{self, Write, stderr};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::Color;
use rustix::termios::tcgetwinsize;

/// The alternate screen on the standard error. The terminal shows its former content again when this value is
/// dropped.
pub(super) struct Screen {
    output: Vec<u8>,
    cursor: Position,
}

impl Screen {
    /// Opens the alternate screen. A panic restores the terminal before its message.
    pub(super) fn open() -> io::Result<Self> {
        HOOK.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore_terminal();
                next(info);
            }));
        });
        let mut screen = Self { output: Vec::new(), cursor: Position::ORIGIN };
        screen.output.extend_from_slice(OPEN);
        IS_OPEN.store(true, Ordering::SeqCst);
        screen.flush()?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Closes the screen of [`ProgressDisplay`](super::ProgressDisplay), if it is open. Call this function before the
/// process exits early, for example after a second signal.
pub fn restore_terminal() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        // A write error is ignored, because the terminal may be gone.
        let _ = stderr().write_all(CLOSE);
    }
}

/// Returns the size of the terminal, or `None` if the standard error is not a terminal.
pub(super) fn size() -> Option<Size> {
    let size = tcgetwinsize(stderr()).ok()?;
    Some(Size::new(size.ws_col, size.ws_row))
}

impl Backend for Screen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut color = Color::Reset;
        for (x, y, cell) in content {
            if self.cursor != Position::new(x, y) {
                write!(self.output, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            if cell.fg != color {
                color = cell.fg;
                write!(self.output, "\x1b[{}m", code(color))?;
            }
            self.output.extend_from_slice(cell.symbol().as_bytes());
            // Terminals differ in the width of some other symbols.
            let is_narrow = cell.symbol().is_ascii();
            self.cursor = if is_narrow { Position::new(x + 1, y) } else { UNKNOWN };
        }
        self.output.extend_from_slice(b"\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.output.extend_from_slice(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.output.extend_from_slice(b"\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // The screen never asks the terminal, because the answer would arrive on the standard input.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.cursor = UNKNOWN;
        write!(self.output, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.output.extend_from_slice(b"\x1b[2J");
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        size().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        if !IS_OPEN.load(Ordering::SeqCst) {
            // Another thread has restored the terminal.
            return Ok(());
        }
        let mut terminal = stderr().lock();
        terminal.write_all(&output)?;
        terminal.flush()
    }
}

/// Returns the code of a foreground color. The screen uses only these colors.
const fn code(color: Color) -> u8 {
    match color {
        Color::Green => 32,
        Color::Blue => 34,
        Color::Cyan => 36,
        _ => 39,
    }
}

/// `true` while the alternate screen is open.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// A position outside the screen, so that the next cell moves the cursor.
const UNKNOWN: Position = Position { x: u16::MAX, y: u16::MAX };

/// Opens the alternate screen, and hides the cursor.
const OPEN: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Shows the cursor, and returns to the main screen.
const CLOSE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
