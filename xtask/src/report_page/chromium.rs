//! Opens a page in headless Chromium and checks its layout.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::child;
use crate::stop::Stop;

/// One measured frame.
#[derive(Deserialize)]
pub(super) struct Frame {
    width: u32,
    /// Width that the content needs.
    content_width: u32,
    /// Elements that extend beyond the right edge, except elements in scrollable containers.
    beyond: Vec<String>,
    plots: Vec<Plot>,
    is_dark: bool,
}

#[derive(Deserialize)]
struct Plot {
    width: f64,
    height: f64,
    /// Number of bars and of lines with at least two points.
    shapes: u32,
    has_numbers: bool,
}

/// Opens a page, writes the screenshot `NAME.png`, and returns the measured frames.
pub(super) fn open(page: &Path, is_dark: bool, name: &Path, stop: &Stop) -> anyhow::Result<Vec<Frame>> {
    let frames = name.with_added_extension("html");
    fs::write(&frames, page_with_frames(&fs::read_to_string(page)?))?;
    let profile = tempfile::Builder::new().prefix("thruway-report-page-").tempdir()?;
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={},{HEIGHT}", PHONE_WIDTH + WINDOW_WIDTH))
        // In Blink's `PreferredColorScheme`, dark is 0.
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
        .arg(format!("--screenshot={}", name.with_added_extension("png").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", frames.display()));
    let printed = child::output_of("chromium", command, LIMIT, stop)?;
    let messages: Vec<_> = printed.lines().filter(|line| line.contains(":CONSOLE")).collect();
    ensure!(messages.is_empty(), "the browser console has messages:\n{}", messages.join("\n"));
    let measurements = printed.split(MEASUREMENTS).nth(1).and_then(|rest| rest.split("</script>").next());
    serde_json::from_str(measurements.context("the page contains no measurements")?)
        .context("cannot parse the measurements")
}

/// Returns a page with two frames, as wide as a phone and as a desktop window, and the script that measures
/// them. The page needs frames, because the minimum width of a Chromium window is 500 pixels.
fn page_with_frames(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: u32| {
        format!(
            "<iframe style=\"border:0;float:left\" width={width} height={HEIGHT} srcdoc=\"{page}\"></iframe>"
        )
    };
    format!(
        "<!doctype html><meta charset=utf-8><link rel=icon href=\"data:,\"><body style=\"margin:0\">{}{}{MEASUREMENTS}</script>\
         <script>{}</script>",
        frame(PHONE_WIDTH),
        frame(WINDOW_WIDTH),
        include_str!("measure.js")
    )
}

/// Checks all frames of a page that has `plots` plots.
pub(super) fn check(frames: &[Frame], plots: usize, is_dark: bool) -> anyhow::Result<()> {
    ensure!(frames.iter().any(|frame| frame.width == PHONE_WIDTH), "no frame is as wide as a phone");
    for frame in frames {
        let width = frame.width;
        ensure!(frame.is_dark == is_dark, "{width} pixels: wrong color scheme");
        ensure!(frame.content_width <= width, "{width} pixels: the content needs {}", frame.content_width);
        ensure!(
            frame.beyond.is_empty(),
            "{width} pixels: elements beyond the right edge: {:?}",
            frame.beyond
        );
        ensure!(frame.plots.len() == plots, "{width} pixels: {} plots, not {plots}", frame.plots.len());
        for (place, plot) in frame.plots.iter().enumerate() {
            let is_drawn = plot.width > 200.0 && plot.height > 50.0 && plot.shapes > 0 && plot.has_numbers;
            ensure!(is_drawn, "{width} pixels: plot {place} is not drawn");
        }
    }
    Ok(())
}

const PHONE_WIDTH: u32 = 390;
const WINDOW_WIDTH: u32 = 1000;
/// Height of a frame, in pixels. Most pages are not higher. The script also measures elements below this
/// height.
const HEIGHT: u32 = 3000;
const MEASUREMENTS: &str = "<script type=\"application/json\" id=\"measurements\">";
const LIMIT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_fault_is_found() {
        let good = r#"[{"width":390,"content_width":390,"beyond":[],"is_dark":true,
            "plots":[{"width":360,"height":150,"shapes":1,"has_numbers":true}]}]"#;
        for (part, faulty, message) in [
            ("", "", ""),
            ("\"width\":390", "\"width\":500", "is as wide as a phone"),
            ("\"is_dark\":true", "\"is_dark\":false", "wrong color scheme"),
            ("\"content_width\":390", "\"content_width\":391", "the content needs 391"),
            ("\"beyond\":[]", "\"beyond\":[\"TABLE\"]", "elements beyond the right edge"),
            (
                "}]}]",
                "}]},{\"width\":1,\"content_width\":1,\"beyond\":[],\"is_dark\":true,\"plots\":[]}]",
                "0 plots",
            ),
            ("\"shapes\":1", "\"shapes\":0", "plot 0 is not drawn"),
            ("\"has_numbers\":true", "\"has_numbers\":false", "plot 0 is not drawn"),
            ("\"height\":150", "\"height\":0", "plot 0 is not drawn"),
            ("\"width\":360", "\"width\":0", "plot 0 is not drawn"),
        ] {
            let frames: Vec<Frame> = serde_json::from_str(&good.replace(part, faulty)).unwrap();
            let found = check(&frames, 1, true).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(found.contains(message) && found.is_empty() == message.is_empty(), "{part}: {found}");
        }
    }

    #[test]
    fn both_frames_contain_the_escaped_page() {
        let page = page_with_frames("<p class=\"a\">1 &lt; 2</p>");
        assert_eq!(page.matches("srcdoc=\"<p class=&quot;a&quot;>1 &amp;lt; 2</p>\"").count(), 2);
    }
}
