//! A page in Chromium without a window.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::pages::Page;
use super::seen::{PHONE_WIDTH, Scheme, Seen};
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_in_its_frames_as_it_is() {
        let page = framed("<p class=\"a\">1 &lt; 2</p>");
        assert_eq!(page.matches("srcdoc=\"<p class=&quot;a&quot;>1 &amp;lt; 2</p>\"").count(), 2);
    }
}
