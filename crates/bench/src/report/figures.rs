//! Formats numbers for people, with a unit and with three significant digits. Rounds numbers for JSON and CSV.

use std::time::Duration;

/// Formats a time that is given in microseconds: `1.24 ms`.
pub fn time(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        _ if microseconds < 1.0 => (microseconds * 1e3, "ns"),
        _ if microseconds < 1e3 => (microseconds, "µs"),
        _ if microseconds < 1e6 => (microseconds / 1e3, "ms"),
        _ => (microseconds / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Formats a rate or a count with thousands separators: `12,345`. Fractions below 1000 get three significant
/// digits.
pub fn rate(value: f64) -> String {
    if value < 1000.0 && value.fract() != 0.0 {
        return three_digits(value);
    }
    let digits = format!("{value:.0}");
    let apart: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    apart.join(",")
}

/// Formats bytes: `1.5 MiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", if unit == "B" { rate(value) } else { three_digits(value) })
}

pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let apart: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    apart.join(",")
}

/// Formats a value with three significant digits.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Text for an unknown value.
pub(super) const NONE: &str = "–";

/// Rounds `value` to `decimals` decimal places, so that JSON contains no digits without meaning.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let factor = 10_f64.powi(decimals);
    (value * factor).round() / factor
}

/// Rounds `value` to `digits` significant digits.
#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite number is below 400")]
pub(crate) fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    // Powers of ten with a negative exponent are not exact.
    let factor = 10_f64.powi(decimals.abs());
    if decimals >= 0 { (value * factor).round() / factor } else { (value / factor).round() * factor }
}

/// Returns a duration in seconds, with a precision of microseconds.
pub(super) fn seconds_of(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64(), 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_and_about_three_digits() {
        assert_eq!(time(0.512), "512 ns");
        assert_eq!(time(1.0), "1.00 µs");
        assert_eq!(time(56.78), "56.8 µs");
        assert_eq!(time(1_234.0), "1.23 ms");
        assert_eq!(time(1_001_000.0), "1.00 s");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1,023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(3 << 40), "3072 GiB");
        assert_eq!(rate(1_234_567.4), "1,234,567");
        assert_eq!(rate(12.3456), "12.3");
        assert_eq!(count(1000), "1,000");
    }

    #[test]
    fn rounding_keeps_no_digits_without_meaning() {
        for (value, written) in [
            (388.213_7, "388.21"),
            (21_004_287.999, "21004000"),
            (0.001_234_567, "0.0012346"),
            (-99_999.6, "-100000"),
            (0.0, "0"),
        ] {
            assert_eq!(significant(value, 5).to_string(), written);
        }
        assert!(significant(f64::NAN, 5).is_nan());
        assert_eq!(seconds_of(Duration::from_nanos(1_000_000_499)).to_string(), "1");
    }
}
