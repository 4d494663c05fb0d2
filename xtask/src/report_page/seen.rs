//! The appearance of a page, and the checks of it.

use anyhow::ensure;
use serde::Deserialize;

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
}
