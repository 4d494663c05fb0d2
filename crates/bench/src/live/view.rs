//! The lines of the screen.

use std::time::Duration;

use ratatui_core::style::{Color, Style};
use ratatui_core::text::{Line, Span};

use super::details::ProgressDetails;
use crate::report::{rate, time};

/// The content of the screen.
pub(super) struct View<'a> {
    /// Name of the load.
    pub(super) name: &'a str,
    /// The progress line.
    pub(super) progress: &'a str,
    pub(super) details: &'a ProgressDetails,
    /// A line for each earlier load of the command, the oldest first.
    pub(super) past: &'a [String],
}

impl View<'_> {
    /// Returns the lines for a screen of this size. If the screen is too small, merges classes of the histogram, and
    /// leaves out the oldest lines.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<Line<'static>> {
        let mut lines = vec![Line::from(self.progress.to_owned())];
        if !self.name.is_empty() {
            lines.insert(0, Line::styled(printable(self.name), Style::new().fg(Color::Cyan)));
        }
        let [p50, p90, p99, max] = self.details.times.map(shown);
        lines.push(Line::from(format!("p50 {p50}   p90 {p90}   p99 {p99}   max {max}")));
        if let Some(most) = self.details.rates.iter().copied().reduce(f64::max) {
            let newest = self.details.rates.len().saturating_sub(width.saturating_sub(LABEL));
            lines.push(Line::default());
            lines.push(Line::from(format!("responses per second, at most {}", rate(most))));
            lines.push(Line::styled(
                sparks(&self.details.rates[newest..], most),
                Style::new().fg(Color::Green),
            ));
        }
        let rest = self.rest();
        // The lines above and the stages have priority over the histogram.
        let room = height.saturating_sub(lines.len() + rest.len() + 2).max(ROWS_MIN);
        lines.extend(self.histogram(width, room));
        let room = height.saturating_sub(lines.len());
        let skipped = rest.len().saturating_sub(room);
        lines.extend(rest.into_iter().skip(skipped));
        lines.truncate(height);
        lines
    }

    fn histogram(&self, width: usize, room: usize) -> Vec<Line<'static>> {
        let classes = merged(&self.details.histogram, room);
        let most = classes.iter().map(|(_, count)| *count).max().unwrap_or(0);
        if most == 0 {
            return Vec::new();
        }
        let total: u64 = classes.iter().map(|(_, count)| *count).sum();
        let room = width.saturating_sub(LABEL + 24).max(1);
        let mut lines = vec![Line::default(), Line::from("response times")];
        lines.extend(classes.into_iter().map(|(limit, count)| {
            Line::from(vec![
                Span::from(format!("≤ {:>9} ", shown(limit))),
                Span::styled(bar(count, most, room), Style::new().fg(Color::Blue)),
                Span::from(format!(" {} ({})", whole(count), percent(count, total))),
            ])
        }));
        lines
    }

    /// Returns the lines of the stages and of the earlier loads.
    fn rest(&self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if !self.details.stages.is_empty() {
            lines.push(Line::default());
            lines.push(Line::from("stage  target              responses     failed        p99"));
        }
        lines.extend(self.details.stages.iter().map(|stage| {
            let mark = if stage.is_finished { ' ' } else { '>' };
            let [answered, failed] = [stage.answered, stage.failed].map(whole);
            Line::from(format!(
                "{mark}{:>4}  {:<18}{answered:>11}{failed:>11}{:>11}",
                stage.number,
                stage.target,
                shown(stage.p99)
            ))
        }));
        if !self.past.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(self.past.iter().map(|line| Line::from(printable(line))));
        lines
    }
}

/// Replaces control characters.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

fn shown(duration: Duration) -> String {
    if duration.is_zero() { "-".to_owned() } else { time(duration.as_secs_f64() * 1e6) }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn whole(count: u64) -> String {
    rate(count as f64)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn percent(count: u64, total: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / total as f64)
}

/// Merges neighboring classes until at most `most` classes are left.
fn merged(classes: &[(Duration, u64)], most: usize) -> Vec<(Duration, u64)> {
    let size = classes.len().div_ceil(most.max(1)).max(1);
    let merge = |group: &[(Duration, u64)]| {
        let count = group.iter().map(|(_, count)| count).sum();
        Some((group.last()?.0, count))
    };
    classes.chunks(size).filter_map(merge).collect()
}

/// Draws a bar with a resolution of an eighth of a character. A count above 0 is always visible.
fn bar(count: u64, most: u64, width: usize) -> String {
    let eighths = u128::from(count) * 8 * width as u128 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(count > 0));
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(
        eighths.checked_rem(8).filter(|rest| *rest > 0).and_then(|rest| EIGHTHS.chars().nth(rest - 1)),
    );
    bar
}

/// Draws one character for each value. The height is in proportion to the value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
fn sparks(values: &[f64], most: f64) -> String {
    let spark = |value: &f64| {
        let height = if most > 0.0 { (value / most * 7.0).clamp(0.0, 7.0) as usize } else { 0 };
        SPARKS.chars().nth(height).unwrap_or(' ')
    };
    values.iter().map(spark).collect()
}

/// Width of the labels of the histogram in columns.
const LABEL: usize = 12;

/// Minimum number of classes of the histogram.
const ROWS_MIN: usize = 3;
const EIGHTHS: &str = "▏▎▍▌▋▊▉";
const SPARKS: &str = "▁▂▃▄▅▆▇█";

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;
    use ratatui_core::text::Text;

    use super::super::details::StageProgress;
    use super::*;

    fn details() -> ProgressDetails {
        let stage = |number, is_finished| StageProgress {
            number,
            target: "500/s".to_owned(),
            answered: 1234,
            failed: 5,
            p99: Duration::from_millis(3),
            is_finished,
        };
        ProgressDetails {
            times: [100, 200, 300, 0].map(Duration::from_micros),
            histogram: [100, 200, 500, 1000].map(|limit| (Duration::from_micros(limit), limit)).to_vec(),
            rates: vec![0.0, 500.0, 1000.0],
            stages: vec![stage(1, true), stage(2, false)],
        }
    }

    /// Draws the view, and returns the rows of the screen.
    fn drawn(view: &View<'_>, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let lines = view.lines(width.into(), height.into());
        terminal.draw(|frame| frame.render_widget(Text::from(lines), frame.area())).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[test]
    fn screen_shows_rates_histogram_stages_and_earlier_loads() {
        let details = details();
        let past = ["100 requests/s holds".to_owned()];
        let view =
            View { name: "http://a/\u{1b}[2J", progress: "[##] 5 s left", details: &details, past: &past };
        let rows = drawn(&view, 60, 24);
        let expected = [
            "http://a/?[2J",
            "[##] 5 s left",
            "p50 100 µs   p90 200 µs   p99 300 µs   max -",
            "",
            "responses per second, at most 1,000",
            "▁▄█",
            "",
            "response times",
            "≤    100 µs ██▍ 100 (5.6 %)",
        ];
        assert_eq!(rows[..9], expected, "{rows:#?}");
        assert_eq!(rows[11], "≤   1.00 ms ████████████████████████ 1,000 (55.6 %)");
        assert_eq!(rows[13], "stage  target              responses     failed        p99");
        assert!(rows[14].starts_with("    1  500/s") && rows[15].starts_with(">   2  500/s"), "{rows:#?}");
        assert_eq!(rows[17], "100 requests/s holds");
    }

    #[test]
    fn small_screen_keeps_the_progress_and_the_newest_lines() {
        let details = details();
        let past: Vec<_> = (0..50).map(|number| format!("load {number}")).collect();
        let view = View { name: "", progress: "progress", details: &details, past: &past };
        let rows = drawn(&view, 40, 14);
        assert_eq!(rows[0], "progress");
        assert_eq!(rows[13], "load 49", "{rows:#?}");
        assert!(rows.iter().filter(|row| row.starts_with('≤')).count() >= 2, "{rows:#?}");
        for (width, height) in [(1, 1), (1, 40), (200, 2)] {
            assert!(view.lines(width, height).len() <= height);
        }
        let empty = View { details: &ProgressDetails::default(), past: &[], ..view };
        assert_eq!(empty.lines(40, 10).len(), 2);
    }

    #[test]
    fn bars_are_in_proportion_and_never_too_long() {
        assert_eq!(
            (bar(0, 10, 4), bar(1, 1000, 4), bar(10, 10, 4)),
            (String::new(), "▏".to_owned(), "████".to_owned())
        );
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(sparks(&[0.0, 0.0], 0.0), "▁▁");
        assert_eq!(merged(&[(Duration::ZERO, 1); 5], 2).len(), 2);
    }
}
