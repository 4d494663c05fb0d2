//! The windows of quotas: hours, days and months in UTC.

use std::fmt;
use std::time::{Duration, SystemTime};

/// Length of the window of a quota. Windows begin at full hours, days or months in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaPeriod {
    /// From minute 0 to the next hour.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From the first day of a month to the first day of the next month.
    Month,
}

/// A window, in seconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl QuotaPeriod {
    /// Returns the window that contains `time`.
    pub(super) fn window(self, time: SystemTime) -> Window {
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let of_length = |length: u64| {
            let start = seconds - seconds % length;
            Window { start, end: start + length }
        };
        match self {
            Self::Hour => of_length(HOUR),
            Self::Day => of_length(DAY),
            Self::Month => {
                let (first, days) = month_of(seconds / DAY);
                Window { start: first * DAY, end: (first + days) * DAY }
            }
        }
    }
}

impl Window {
    /// Returns the time until the end of the window, at least 1 ms.
    pub(super) fn time_left(self, time: SystemTime) -> Duration {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(self.end);
        end.duration_since(time).unwrap_or_default().max(Duration::from_millis(1))
    }
}

/// Returns the first day of the month that contains `day`, and the number of days in this month. Days are counted from
/// 1970-01-01.
fn month_of(day: u64) -> (u64, u64) {
    // The year starts in March, so that the leap day is the last day of a year.
    let day = day + DAYS_TO_1970;
    let (cycle, day_of_cycle) = (day / DAYS_IN_400_YEARS, day % DAYS_IN_400_YEARS);
    let year = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let start_of_year = year * 365 + year / 4 - year / 100;
    let month = (5 * (day_of_cycle - start_of_year) + 2) / 153;
    let first_of = |month: u64| (153 * month + 2) / 5;
    let first = cycle * DAYS_IN_400_YEARS + start_of_year + first_of(month) - DAYS_TO_1970;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        11 => 28 + u64::from(is_leap(year + 1)),
        month => first_of(month + 1) - first_of(month),
    };
    (first, days)
}

impl fmt::Display for QuotaPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const DAYS_IN_400_YEARS: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    fn window(period: QuotaPeriod, date: &str) -> (String, String) {
        let window = period.window(httpdate::parse_http_date(date).unwrap());
        let text = |seconds| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        (text(window.start), text(window.end))
    }

    #[test]
    fn windows_start_at_full_hours_days_and_months() {
        for (period, date, start, end) in [
            (
                QuotaPeriod::Hour,
                "Tue, 29 Feb 2028 23:59:59 GMT",
                "Tue, 29 Feb 2028 23:00:00 GMT",
                "Wed, 01 Mar 2028 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Day,
                "Tue, 29 Feb 2028 23:59:59 GMT",
                "Tue, 29 Feb 2028 00:00:00 GMT",
                "Wed, 01 Mar 2028 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Tue, 29 Feb 2028 23:59:59 GMT",
                "Tue, 01 Feb 2028 00:00:00 GMT",
                "Wed, 01 Mar 2028 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Sun, 28 Feb 2027 00:00:00 GMT",
                "Mon, 01 Feb 2027 00:00:00 GMT",
                "Mon, 01 Mar 2027 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Thu, 31 Dec 2026 12:00:00 GMT",
                "Tue, 01 Dec 2026 00:00:00 GMT",
                "Fri, 01 Jan 2027 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Thu, 01 Jan 1970 00:00:00 GMT",
                "Thu, 01 Jan 1970 00:00:00 GMT",
                "Sun, 01 Feb 1970 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Mon, 01 Mar 2100 00:00:00 GMT",
                "Mon, 01 Mar 2100 00:00:00 GMT",
                "Thu, 01 Apr 2100 00:00:00 GMT",
            ),
            (
                QuotaPeriod::Month,
                "Sun, 28 Feb 2100 10:00:00 GMT",
                "Mon, 01 Feb 2100 00:00:00 GMT",
                "Mon, 01 Mar 2100 00:00:00 GMT",
            ),
        ] {
            assert_eq!(window(period, date), (start.to_owned(), end.to_owned()), "{period} of {date}");
        }
    }

    #[test]
    fn months_follow_each_other_without_gaps() {
        let (mut first, mut days) = month_of(0);
        for _ in 0..12 * 500 {
            let next = first + days;
            assert_eq!(month_of(next - 1), (first, days));
            (first, days) = month_of(next);
            assert_eq!(first, next);
        }
    }
}
