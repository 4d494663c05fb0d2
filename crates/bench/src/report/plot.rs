//! Draws plots as inline SVG. Colors and fonts come from the CSS of the page, so that the plots follow its
//! light or dark mode.

use std::fmt::Write as _;

use super::figures::rounded;

/// A line of a plot.
pub(super) struct Line {
    pub(super) name: String,
    /// Points with x and y, from left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot of lines.
pub(super) struct Plot<'a> {
    /// Alternative text for screen readers.
    pub(super) title: &'a str,
    pub(super) lines: Vec<Line>,
    /// Positions of the marks on the horizontal axis, with their labels.
    pub(super) x_marks: Vec<(f64, String)>,
    pub(super) format_y: fn(f64) -> String,
    /// `true` if the vertical axis is logarithmic.
    pub(super) is_logarithmic: bool,
}

/// A bar from the ratio 1 to the median ratio, with a confidence interval.
pub struct Bar {
    /// The text above the bar.
    pub label: String,
    /// The median of the ratios.
    pub median: f64,
    /// The lower end of the confidence interval.
    pub low: f64,
    /// The upper end of the confidence interval.
    pub high: f64,
    /// The CSS class that sets the color of the bar.
    pub class: &'static str,
}

impl Plot<'_> {
    /// Returns the plot as SVG, or an empty string if there is no value to draw.
    pub(super) fn svg(&self) -> String {
        let ys = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let ys: Vec<f64> = ys.filter(|y| y.is_finite() && (!self.is_logarithmic || *y > 0.0)).collect();
        let xs = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let x_marks = self.x_marks.iter().map(|(x, _)| *x);
        let (x_min, x_max) = bounds(xs.chain(x_marks));
        let marks = self.y_marks(&ys);
        let (Some(y_min), Some(y_max)) = (marks.first().copied(), marks.last().copied()) else {
            return String::new();
        };
        let x = |value: f64| LEFT + (value - x_min) / (x_max - x_min).max(f64::MIN_POSITIVE) * (RIGHT - LEFT);
        let scale = |value: f64| if self.is_logarithmic { value.max(y_min).log10() } else { value };
        let height = (scale(y_max) - scale(y_min)).max(f64::MIN_POSITIVE);
        let y = |value: f64| BOTTOM - (scale(value) - scale(y_min)) / height * (BOTTOM - TOP);
        let mut svg = open(self.title, HEIGHT);
        for mark in &marks {
            let (at, label) = (y(*mark), (self.format_y)(*mark));
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (value, label) in &self.x_marks {
            let at = x(*value);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{BOTTOM}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
                BOTTOM + 28.0
            );
        }
        for (place, line) in self.lines.iter().enumerate() {
            let points: Vec<String> =
                line.points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
            let _ =
                write!(svg, r#"<polyline class="line c{}" points="{}"/>"#, place % COLOURS, points.join(" "));
        }
        svg.push_str("</svg>");
        svg.push_str(&self.legend());
        svg
    }

    fn legend(&self) -> String {
        let names = self.lines.iter().enumerate().map(|(place, line)| {
            format!(r#"<span><i class="c{}"></i>{}</span>"#, place % COLOURS, escaped(&line.name))
        });
        format!(r#"<p class="legend">{}</p>"#, names.collect::<String>())
    }

    /// Returns round values for the marks of the vertical axis. All values in `ys` lie between the first
    /// and the last mark.
    fn y_marks(&self, ys: &[f64]) -> Vec<f64> {
        if ys.is_empty() {
            return Vec::new();
        }
        let (min, max) = bounds(ys.iter().copied());
        if self.is_logarithmic { decades(min, max) } else { steps(max) }
    }
}

/// Draws the bars of ratios, one below the other.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let all = bars.iter().flat_map(|bar| [bar.low, bar.high, 1.0]);
    let (min, max) = bounds(all.filter(|value| value.is_finite()));
    let margin = ((max - min) * 0.1).max(0.02);
    let (min, max) = (min - margin, max + margin);
    let x = |value: f64| LEFT_OF_BARS + (value - min) / (max - min) * (RIGHT - LEFT_OF_BARS);
    #[expect(clippy::cast_precision_loss, reason = "bars are few")]
    let height = bars.len() as f64 * ROW + 40.0;
    let mut svg = open(title, height);
    let one = x(1.0);
    let _ = write!(
        svg,
        r#"<line class="axis" x1="{one:.1}" x2="{one:.1}" y1="4" y2="{:.1}"/><text x="{one:.1}" y="{:.1}" text-anchor="middle">×1</text>"#,
        height - 22.0,
        height - 6.0
    );
    for mark in ratio_marks(min, max).filter(|mark| (mark - 1.0).abs() > (max - min) / 20.0) {
        let at = x(mark);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="4" y2="{:.1}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">×{}</text>"#,
            height - 22.0,
            height - 6.0,
            rounded(mark, 4)
        );
    }
    let mut top = 8.0;
    for bar in bars {
        let middle = top + ROW / 2.0 + 6.0;
        let (start, end) = (x(bar.median.min(1.0)), x(bar.median.max(1.0)));
        let _ = write!(
            svg,
            r#"<text x="0" y="{:.1}">{}</text><rect class="{}" x="{start:.1}" y="{:.1}" width="{:.1}" height="14"/><line class="axis" x1="{:.1}" x2="{:.1}" y1="{middle:.1}" y2="{middle:.1}"/>"#,
            middle - 15.0,
            escaped(&bar.label),
            bar.class,
            middle - 7.0,
            (end - start).max(1.0),
            x(bar.low),
            x(bar.high)
        );
        for end in [bar.low, bar.high] {
            let at = x(end);
            let _ = write!(
                svg,
                r#"<line class="axis" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/>"#,
                middle - 5.0,
                middle + 5.0
            );
        }
        top += ROW;
    }
    svg.push_str("</svg>");
    svg
}

fn open(title: &str, height: f64) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#, escaped(title))
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(value), max.max(value)))
}

/// Returns the marks from 0 to at least `max`. The distance between two marks is 1, 2 or 5 times a power of
/// ten.
fn steps(max: f64) -> Vec<f64> {
    if max <= 0.0 {
        return vec![0.0, 1.0];
    }
    let power = 10_f64.powf((max / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| step * 5.0 >= max);
    let step = step.unwrap_or(10.0 * power);
    (0..=6).map(|n| f64::from(n) * step).take_while(|mark| mark - step < max).collect()
}

/// Returns at most seven round ratios between `min` and `max`.
fn ratio_marks(min: f64, max: f64) -> impl Iterator<Item = f64> {
    let width = (max - min).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf((width / 6.0).log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| width / step <= 6.0);
    let step = step.unwrap_or(10.0 * power);
    let first = (min / step).ceil() * step;
    (0..7).map(move |n| first + f64::from(n) * step).take_while(move |mark| *mark <= max)
}

/// Returns the marks of a logarithmic axis that enclose `min` and `max`, such as 1, 3, 10 and 30.
fn decades(min: f64, max: f64) -> Vec<f64> {
    let first = min.log10().floor();
    let marks = (0..40).map(|half| {
        let mark = 10_f64.powf(first + f64::from(half / 2));
        if half % 2 == 0 { mark } else { mark * 3.0 }
    });
    let mut marks: Vec<f64> = marks.take_while(|mark| mark / 3.4 < max).collect();
    while marks.len() > 2 && marks[1] <= min {
        marks.remove(0);
    }
    // More than nine marks would be too dense.
    if marks.len() > 9 {
        let last = marks[marks.len() - 1];
        marks = marks.into_iter().step_by(2).collect();
        if marks.last().is_some_and(|mark| *mark < last) {
            marks.push(last);
        }
    }
    marks
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 306.0;
const LEFT: f64 = 92.0;
const LEFT_OF_BARS: f64 = 10.0;
const RIGHT: f64 = 685.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 270.0;
/// Height of a label and of the bar below the label.
const ROW: f64 = 52.0;
const COLOURS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_marks_are_round_and_enclose_all_values() {
        assert_eq!(steps(97.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(steps(4.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(steps(0.0), [0.0, 1.0]);
        for (min, max) in [(35.0, 1234.0), (100.0, 100.0), (0.5, 9e9), (1.0, 2.0)] {
            let marks = decades(min, max);
            assert!(marks[0] <= min && marks[marks.len() - 1] >= max && marks.len() <= 12, "{marks:?}");
        }
    }

    #[test]
    fn marks_of_ratios_are_round_and_few() {
        let marks = |min, max| ratio_marks(min, max).map(|mark| rounded(mark, 4)).collect::<Vec<_>>();
        assert_eq!(marks(0.88, 1.07), [0.9, 0.95, 1.0, 1.05]);
        assert_eq!(marks(0.5, 12.2), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        for (min, max) in [(0.98, 1.02), (0.001, 900.0), (1.0, 1.0 + 1e-9)] {
            assert!((1..=7).contains(&marks(min, max).len()), "{min} {max}: {:?}", marks(min, max));
        }
        assert!(marks(1.0, 1.0).len() <= 7);
    }

    #[test]
    fn plot_escapes_user_text() {
        let bar = Bar { label: "<script>".to_owned(), median: 1.1, low: 1.0, high: 1.2, class: "better" };
        let svg = bars("a \"b\"", &[bar]);
        assert!(svg.contains("&lt;script&gt;") && svg.contains("a &quot;b&quot;") && !svg.contains("NaN"));
    }

    #[test]
    fn plot_without_lines_is_empty() {
        let plot = Plot {
            title: "a",
            lines: Vec::new(),
            x_marks: Vec::new(),
            format_y: |y| y.to_string(),
            is_logarithmic: true,
        };
        assert_eq!(plot.svg(), "");
    }
}
