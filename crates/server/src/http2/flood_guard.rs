//! Flood guard: ends connections of clients that cause useless work, such as many canceled requests. One
//! counter per connection covers all kinds of useless work.
//!
//! A connection starts with the maximum number of points. Each wasteful event removes points. Useful work
//! adds points, and points also come back over time, up to the maximum. The connection ends when no points
//! are left. Frames that violate the protocol and end the connection at once are not counted. A malformed
//! request causes a reset, and costs the points of a reset.

use std::time::Duration;

use super::frames::{Frame, FrameKind};

/// The points of one connection.
#[derive(Debug)]
pub(super) struct FloodGuard {
    left: u32,
    max: u32,
    refilled_at: Duration,
}

impl FloodGuard {
    pub(super) const fn new(max: u32, now: Duration) -> Self {
        Self { left: max, max, refilled_at: now }
    }

    /// Adds points for the elapsed time. After ten seconds, the connection has the maximum number of points
    /// again.
    pub(super) fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.refilled_at);
        if elapsed >= REFILL_EVERY {
            let share = elapsed.min(FULL_AFTER).as_millis() * u128::from(self.max) / FULL_AFTER.as_millis();
            self.give(u32::try_from(share).unwrap_or(self.max));
            self.refilled_at = now;
        }
    }

    /// Returns `true` if no points are left.
    pub(super) const fn is_too_many(&self) -> bool {
        self.left == 0
    }

    /// Counts a received frame.
    pub(super) fn received(&mut self, frame: Frame) {
        match frame.kind {
            FrameKind::Data if frame.length == 0 && !frame.ends_stream() => self.take(WASTE),
            FrameKind::Data => self.give(1),
            FrameKind::Continuation if frame.length == 0 => self.take(WASTE),
            FrameKind::Settings if !frame.is_acknowledgement() => self.take(WASTE),
            FrameKind::ResetStream(_) => self.take(RESET),
            FrameKind::Headers | FrameKind::GoAway | FrameKind::PushPromise => {}
            FrameKind::Continuation
            | FrameKind::Ping
            | FrameKind::Priority
            | FrameKind::Settings
            | FrameKind::Unknown
            | FrameKind::WindowUpdate => self.take(1),
        }
    }

    /// Counts a sent frame.
    pub(super) fn sent(&mut self, frame: Frame) {
        match frame.kind {
            // A reset costs points only if the client has caused it, for example by a malformed request.
            FrameKind::ResetStream(code) if !OUR_REASONS.contains(&code) => self.take(RESET),
            FrameKind::Data | FrameKind::Headers if frame.ends_stream() => self.give(ANSWER),
            // The client may respond to a DATA frame with two WINDOW_UPDATE frames, which cost one point
            // each.
            FrameKind::Data => self.give(2),
            _ => {}
        }
    }

    const fn take(&mut self, points: u32) {
        self.left = self.left.saturating_sub(points);
    }

    fn give(&mut self, points: u32) {
        self.left = self.left.saturating_add(points).min(self.max);
    }
}

/// Points that a reset costs, because the server has done the work for its stream in vain.
const RESET: u32 = 10;

/// Points that a useless empty frame or a SETTINGS frame costs.
const WASTE: u32 = 5;

/// Points that a complete response adds. This is half of the cost of a reset.
const ANSWER: u32 = 5;

const FULL_AFTER: Duration = Duration::from_secs(10);
const REFILL_EVERY: Duration = Duration::from_millis(100);

/// Error codes of resets that the client has not caused: `NO_ERROR`, `INTERNAL_ERROR` and `CANCEL` (RFC 9113
/// §7).
const OUR_REASONS: [u32; 3] = [0x0, 0x2, 0x8];

#[cfg(test)]
mod tests {
    use super::super::frames::FrameScan;
    use super::*;

    fn frame(kind: u8, flags: u8, content: &[u8]) -> Frame {
        let mut bytes = vec![0, 0, u8::try_from(content.len()).unwrap(), kind, flags, 0, 0, 0, 1];
        bytes.extend_from_slice(content);
        let mut found = None;
        FrameScan::behind(0).pass(&bytes, |frame| found = Some(frame));
        found.unwrap()
    }

    /// Returns the number of such frames that are within the limit.
    fn allowed_frames(frame: Frame) -> usize {
        let mut flood_guard = FloodGuard::new(1000, Duration::ZERO);
        (0..10_000).take_while(|_| (flood_guard.received(frame), !flood_guard.is_too_many()).1).count()
    }

    #[test]
    fn each_kind_of_costly_frame_has_a_limit() {
        for (name, kind, flags, content, count) in [
            ("resets", 3, 0, &b"\0\0\0\x08"[..], 99),
            ("settings", 4, 0, b"", 199),
            ("unsolicited acknowledgements", 4, 1, b"", 999),
            ("pings", 6, 0, b"12345678", 999),
            ("priorities", 2, 0, b"12345", 999),
            ("window updates", 8, 0, b"\0\0\0\x01", 999),
            ("empty data frames", 0, 0, b"", 199),
            ("empty continuations", 9, 0, b"", 199),
            ("continuations", 9, 0, b"x", 999),
            ("frames of unknown types", 77, 0, b"x", 999),
        ] {
            assert_eq!(allowed_frames(frame(kind, flags, content)), count, "{name}");
        }
    }

    #[test]
    fn useful_frames_never_count_as_flood() {
        assert_eq!(allowed_frames(frame(0, 0, b"content")), 10_000);
        assert_eq!(allowed_frames(frame(0, 1, b"")), 10_000);
        assert_eq!(allowed_frames(frame(1, 5, b"x")), 10_000);
    }

    #[test]
    fn sent_resets_count_only_if_the_client_caused_them() {
        let mut flood_guard = FloodGuard::new(1000, Duration::ZERO);
        for code in [b"\0\0\0\0", b"\0\0\0\x02", b"\0\0\0\x08"] {
            (0..1000).for_each(|_| flood_guard.sent(frame(3, 0, code)));
        }
        assert!(!flood_guard.is_too_many());
        (0..100).for_each(|_| flood_guard.sent(frame(3, 0, b"\0\0\0\x01")));
        assert!(flood_guard.is_too_many());
    }

    #[test]
    fn responses_and_time_restore_the_flood_budget() {
        let mut flood_guard = FloodGuard::new(1000, Duration::ZERO);
        let (reset, answer) = (frame(3, 0, b"\0\0\0\x08"), frame(0, 1, b"ok"));
        for _ in 0..10_000 {
            flood_guard.received(reset);
            (0..2).for_each(|_| flood_guard.sent(answer));
        }
        assert!(!flood_guard.is_too_many(), "a client may reset one in three requests");
        (0..100).for_each(|_| flood_guard.received(reset));
        assert!(flood_guard.is_too_many());
        flood_guard.refill(Duration::from_secs(1));
        assert_eq!(flood_guard.left, 100);
        flood_guard.refill(Duration::from_hours(1));
        assert_eq!(flood_guard.left, 1000);
    }
}
