//! Times in log lines.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// The time of day as text in two formats, updated once per second.
#[derive(Default)]
pub(super) struct Timestamps {
    second: Option<u64>,
    pub(super) microseconds: u32,
    pub(super) common: String,
    pub(super) rfc3339: String,
}

impl Timestamps {
    pub(super) fn renew(&mut self, time: SystemTime) {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let second = since_epoch.as_secs();
        self.microseconds = since_epoch.subsec_micros();
        if self.second != Some(second) {
            let time = OffsetDateTime::from(time).replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
            self.common = time.format(COMMON).unwrap_or_default();
            self.rfc3339 = time.format(&Rfc3339).unwrap_or_default();
            self.second = Some(second);
        }
    }
}

const COMMON: &[BorrowedFormatItem<'_>] =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
