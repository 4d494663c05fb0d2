//! A page in Chromium without a window, and the checks of its appearance.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::pages::Page;
use crate::child;
use crate::stop::Stop;

/// Opens a page, takes screenshots, and returns the measured frames.
pub(super) fn open(
    browser: &Path,
    page: &Page,
    scheme: Scheme,
    directory: &Path,
    stop: &Stop,
) -> anyhow::Result<Vec<Seen>> {
    let content = fs::read_to_string(&page.path)?;
    let frames = directory.join(format!("{}-frames.html", page.name));
    fs::write(&frames, framed(&content))?;
    let profile = tempfile::Builder::new().prefix("thruway-report-page-").tempdir()?;
    let screenshot = directory.join(format!("{}-{}.png", page.name, scheme.name()));
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={},{HEIGHT}", PHONE_WIDTH + WINDOW_WIDTH))
        .arg(format!("--blink-settings=preferredColorScheme={}", scheme.number()))
        .arg(format!("--screenshot={}", screenshot.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", frames.display()));
    let printed = child::output_of("chromium", command, LIMIT, stop)?;
    let complaints: Vec<_> = printed.lines().filter(|line| line.contains(":CONSOLE")).collect();
    ensure!(complaints.is_empty(), "the console is not silent:\n{}", complaints.join("\n"));
    let seen = printed.split(SEEN).nth(1).and_then(|rest| rest.split("</script>").next());
    serde_json::from_str(seen.context("the browser has not looked")?)
        .context("the measured frames are unreadable")
}

/// The page in a frame as wide as a phone and in one as wide as a window, and what measures them. A window of
/// its own has no less than 500 pixels.
fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: u32| {
        format!(
            "<iframe style=\"border:0;float:left\" width={width} height={HEIGHT} srcdoc=\"{page}\"></iframe>"
        )
    };
    format!(
        "<!doctype html><meta charset=utf-8><link rel=icon href=\"data:,\"><body style=\"margin:0\">{}{}{SEEN}</script>\
         <script>{MEASURE}</script>",
        frame(PHONE_WIDTH),
        frame(WINDOW_WIDTH)
    )
}

const WINDOW_WIDTH: u32 = 1000;
/// Higher than most pages; the measurement includes the part below.
const HEIGHT: u32 = 3000;
const SEEN: &str = "<script type=\"application/json\" id=\"seen\">";
const MEASURE: &str = include_str!("measure.js");
const LIMIT: Duration = Duration::from_mins(1);

/// A preferred color scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The value of Blink's `PreferredColorScheme`.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Dark => 0,
            Self::Light => 1,
        }
    }
}

/// One frame.
#[derive(Deserialize)]
pub(super) struct Seen {
    width: u32,
    /// Width that the content needs.
    content_width: u32,
    /// Elements that begin or end beyond the right edge, but for those that scroll.
    beyond: Vec<String>,
    plots: Vec<Plot>,
    is_dark: bool,
}

#[derive(Deserialize)]
struct Plot {
    width: f64,
    height: f64,
    /// Lines of at least two points, and bars.
    shapes: u32,
    has_numbers: bool,
}

/// Checks all frames of a page with so many plots.
pub(super) fn check(seen: &[Seen], plots: usize, scheme: Scheme) -> anyhow::Result<()> {
    ensure!(seen.iter().any(|frame| frame.width == PHONE_WIDTH), "no frame is as wide as a phone");
    for frame in seen {
        let width = frame.width;
        ensure!(frame.is_dark == (scheme == Scheme::Dark), "{width} pixels: it is not {}", scheme.name());
        ensure!(frame.content_width <= width, "{width} pixels: the content needs {}", frame.content_width);
        ensure!(frame.beyond.is_empty(), "{width} pixels: beyond the edge are {:?}", frame.beyond);
        ensure!(frame.plots.len() == plots, "{width} pixels: {} plots, not {plots}", frame.plots.len());
        for (place, plot) in frame.plots.iter().enumerate() {
            let is_drawn = plot.width > 200.0 && plot.height > 50.0 && plot.shapes > 0 && plot.has_numbers;
            ensure!(is_drawn, "{width} pixels: plot {place} is not drawn");
        }
    }
    Ok(())
}

/// Width of a phone.
pub(super) const PHONE_WIDTH: u32 = 390;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the verdict about a page in which `key` is `value`.
    fn verdict(key: &str, value: &Value) -> Result<(), String> {
        let plot = json!({"width": 360, "height": 150, "shapes": 1, "has_numbers": true});
        let mut frame =
            json!({"width": 390, "content_width": 390, "beyond": [], "plots": [plot], "is_dark": true});
        match frame["plots"][0].get(key) {
            Some(_) => frame["plots"][0][key] = value.clone(),
            None => frame[key] = value.clone(),
        }
        let seen: Vec<Seen> = serde_json::from_value(json!([frame])).unwrap();
        check(&seen, 1, Scheme::Dark).map_err(|error| error.to_string())
    }

    #[test]
    fn each_fault_is_found() {
        assert_eq!(verdict("is_dark", &json!(true)), Ok(()));
        for (key, value, message) in [
            ("width", json!(500), "is as wide as a phone"),
            ("is_dark", json!(false), "it is not dark"),
            ("content_width", json!(391), "the content needs 391"),
            ("beyond", json!(["TABLE"]), "beyond the edge are"),
            ("plots", json!([]), "0 plots, not 1"),
            ("shapes", json!(0), "plot 0 is not drawn"),
            ("has_numbers", json!(false), "plot 0 is not drawn"),
            ("height", json!(0), "plot 0 is not drawn"),
        ] {
            // The plot has a width of its own.
            let found = if key == "width" { outer_width(&value) } else { verdict(key, &value) };
            assert!(found.as_ref().is_err_and(|error| error.contains(message)), "{key}: {found:?}");
        }
    }

    fn outer_width(width: &Value) -> Result<(), String> {
        let frame = json!({"width": width, "content_width": 390, "beyond": [], "plots": [], "is_dark": true});
        let seen: Vec<Seen> = serde_json::from_value(json!([frame])).unwrap();
        check(&seen, 0, Scheme::Dark).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_stands_in_its_frames_as_it_is() {
        let page = framed("<p class=\"a\">1 &lt; 2</p>");
        assert_eq!(page.matches("srcdoc=\"<p class=&quot;a&quot;>1 &amp;lt; 2</p>\"").count(), 2);
    }
}
