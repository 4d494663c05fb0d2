//! What is known of a server, and goes on being known when the config of its upstream changes.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::upstream::counts::ServerCounts;
use crate::upstream::health::admin_state::StandingCell;
use crate::upstream::health::ejection::Ejection;
use crate::upstream::health::latency::Latency;
use crate::upstream::response_times::ResponseTimes;

/// How a server is doing, as all workers see it; it is the same from one config to the next, so that what has begun before a reload is
/// counted to its end. Times are milliseconds of the clock, which all of them read alike.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    pub(crate) in_flight: AtomicUsize,
    pub(crate) counts: ServerCounts,
    pub(crate) responses: ResponseTimes,
    pub(crate) latency: Latency,
    pub(crate) ejection: Ejection,
    pub(crate) standing: StandingCell,
    /// How often it was found down or was ejected.
    setbacks: AtomicUsize,
    checked: AtomicU8,
    chosen: AtomicU8,
    /// When it may get requests again, as it has said itself.
    pub(crate) asks_to_wait_until: AtomicU64,
    /// When it has come back; 0 if it never was away.
    pub(crate) back_since: AtomicU64,
}

/// What checks have found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub(crate) enum Checked {
    /// Nothing yet: it is taken for up.
    #[default]
    NotYet,
    Up,
    Down,
}

/// Which version of HTTP a server has chosen last, where it may choose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub(crate) enum Chosen {
    /// None yet.
    #[default]
    NotYet,
    Http1,
    Http2,
}

impl Condition {
    #[inline]
    pub(crate) fn checked(&self) -> Checked {
        match self.checked.load(Ordering::Relaxed) {
            UP => Checked::Up,
            DOWN => Checked::Down,
            _ => Checked::NotYet,
        }
    }

    pub(crate) fn set_checked(&self, checked: Checked) {
        self.checked.store(checked as u8, Ordering::Relaxed);
    }

    /// How often it was found down or was ejected: what was opened before the last time may lead nowhere.
    pub(crate) fn setbacks(&self) -> usize {
        self.setbacks.load(Ordering::Relaxed)
    }

    pub(crate) fn note_setback(&self) {
        self.setbacks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn chosen(&self) -> Chosen {
        match self.chosen.load(Ordering::Relaxed) {
            HTTP1 => Chosen::Http1,
            HTTP2 => Chosen::Http2,
            _ => Chosen::NotYet,
        }
    }

    pub(crate) fn set_chosen(&self, chosen: Chosen) {
        self.chosen.store(chosen as u8, Ordering::Relaxed);
    }
}

const UP: u8 = Checked::Up as u8;
const DOWN: u8 = Checked::Down as u8;
const HTTP1: u8 = Chosen::Http1 as u8;
const HTTP2: u8 = Chosen::Http2 as u8;
