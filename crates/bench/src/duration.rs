//! Parses durations and other numbers of the command line.

use std::borrow::Cow;
use std::time::Duration;

/// Maximum duration: a year.
pub(crate) const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

/// Parses a duration that may be zero: `30`, `500ms`, `2s` or `1m`. A number without a unit is in seconds.
///
/// # Errors
/// Returns a message if the text is not a duration, or if the duration is more than a year.
pub fn parse_pause(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let with_unit = if is_number { Cow::Owned(format!("{text}s")) } else { Cow::Borrowed(text) };
    match humantime::parse_duration(&with_unit) {
        Ok(time) if time > DURATION_MAX => Err("the time must be less than a year".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a duration above zero, in the formats of [`parse_pause`].
///
/// # Errors
/// Returns a message if the text is not a duration, or if the duration is zero or more than a year.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    match parse_pause(text) {
        Ok(time) if time.is_zero() => Err("the time must be more than 0".to_owned()),
        parsed => parsed,
    }
}

/// Parses a number of requests per second.
///
/// # Errors
/// Returns a message if the text is not a number between 0.001 and 1,000,000,000.
pub fn parse_rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e9).contains(rate));
    rate.ok_or("expected requests per second, between 0.001 and 1000000000")
}

/// Parses a percentage below 100.
///
/// # Errors
/// Returns a message if the text is not a number from 0 to 100.
pub fn parse_percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or("expected a percentage between 0 and 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_unit_is_in_seconds() {
        for (text, seconds) in [("30", 30), ("5", 5), ("2s", 2), ("1m", 60), ("2h", 7200)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "0", "-1", "s", "2x", "99999999999999999999"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_pause("0"), Ok(Duration::ZERO));
    }
}
