//! Tracks which subscribers were notified of a publication, and when.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::times::Times;

/// Tracks the notifications of the current publication. The caller passes the current time.
pub(super) struct NotificationTally {
    state: Mutex<State>,
    all_received: Notify,
}

struct State {
    /// Number of the current publication, counted from 1.
    round: u64,
    started: Duration,
    is_measured: bool,
    /// For each subscriber, the number of the publication during which it was last notified.
    heard: Vec<u64>,
    /// Number of subscribers that were not yet notified of the current publication.
    waiting: usize,
    /// Time of the latest notification.
    last: Duration,
    deliveries: Times,
}

impl NotificationTally {
    pub(super) fn new(subscribers: usize) -> Self {
        let state = State {
            round: 0,
            started: Duration::ZERO,
            is_measured: false,
            heard: vec![0; subscribers],
            waiting: 0,
            last: Duration::ZERO,
            deliveries: Times::exact(),
        };
        Self { state: Mutex::new(state), all_received: Notify::new() }
    }

    /// Starts a publication. Each later notification counts for this publication, even if it is a late
    /// notification of the previous publication.
    pub(super) fn begin(&self, now: Duration, is_measured: bool) {
        let mut state = self.state();
        state.round += 1;
        state.started = now;
        state.is_measured = is_measured;
        state.waiting = state.heard.len();
    }

    /// Records that the subscriber at index `place` was notified at `now`. Only the first notification of
    /// each publication counts.
    pub(super) fn hear(&self, place: usize, now: Duration) {
        let mut state = self.state();
        let round = state.round;
        if std::mem::replace(&mut state.heard[place], round) == round {
            return;
        }
        state.waiting -= 1;
        state.last = now;
        if state.is_measured {
            let time = now.saturating_sub(state.started);
            state.deliveries.record(time);
        }
        if state.waiting == 0 {
            self.all_received.notify_one();
        }
    }

    /// Waits until all subscribers have been notified, and returns the time of the last notification.
    pub(super) async fn all_received(&self) -> Duration {
        loop {
            let notified = self.all_received.notified();
            {
                let state = self.state();
                if state.waiting == 0 {
                    return state.last;
                }
            }
            notified.await;
        }
    }

    /// Returns the number of subscribers that were notified of the current publication.
    pub(super) fn notified(&self) -> usize {
        let state = self.state();
        state.heard.len() - state.waiting
    }

    /// Returns the times from the start of a measured publication to the notification of each subscriber.
    pub(super) fn deliveries(&self) -> Times {
        self.state().deliveries.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll_all_received(notification_tally: &NotificationTally) -> Poll<Duration> {
        pin!(notification_tally.all_received()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn publication_completes_when_the_last_subscriber_is_notified() {
        let milliseconds = Duration::from_millis;
        let notification_tally = NotificationTally::new(3);
        notification_tally.begin(milliseconds(100), true);
        notification_tally.hear(0, milliseconds(101));
        notification_tally.hear(0, milliseconds(102));
        notification_tally.hear(2, milliseconds(103));
        assert!(
            poll_all_received(&notification_tally).is_pending() && notification_tally.notified() == 2,
            "a repeated notification counts once"
        );
        notification_tally.hear(1, milliseconds(110));
        assert_eq!(poll_all_received(&notification_tally), Poll::Ready(milliseconds(110)));
        notification_tally.hear(1, milliseconds(120));
        assert_eq!(
            poll_all_received(&notification_tally),
            Poll::Ready(milliseconds(110)),
            "a late notification changes nothing"
        );
        assert_eq!(notification_tally.deliveries().count(), 3);
        notification_tally.begin(milliseconds(200), false);
        assert!(poll_all_received(&notification_tally).is_pending() && notification_tally.notified() == 0);
        (0..3).for_each(|place| notification_tally.hear(place, milliseconds(201)));
        assert_eq!(poll_all_received(&notification_tally), Poll::Ready(milliseconds(201)));
        assert_eq!(notification_tally.deliveries().count(), 3, "an unmeasured publication is not counted");
        assert!(notification_tally.deliveries().max() < milliseconds(11));
    }
}
