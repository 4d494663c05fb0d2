//! Counts calls that have become tasks until the tasks end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::calls_in_flight::CallPermit;
use crate::bridge::TaskPoll;

/// The running tasks that count toward limits.
#[derive(Default, Debug)]
pub(super) struct RunningTasks(Arc<Mutex<Counted>>);

#[derive(Default, Debug)]
struct Counted {
    tasks: HashMap<TaskKey, CountedTask>,
    last_number: u64,
}

/// The index of a member, and the member's own id of the task.
type TaskKey = (usize, Box<str>);

#[derive(Debug)]
struct CountedTask {
    /// Distinguishes the task from a later task with the same id.
    number: u64,
    _permits: Vec<CallPermit>,
}

impl RunningTasks {
    /// Keeps `permits` until the task has ended. Polls the state of the task, because its client may never ask for
    /// it.
    pub(super) fn begin(&self, member: usize, permits: Vec<CallPermit>, poll: TaskPoll) {
        let key = (member, poll.id.clone());
        let mut counted = lock(&self.0);
        counted.last_number += 1;
        let number = counted.last_number;
        let replaced = counted.tasks.insert(key.clone(), CountedTask { number, _permits: permits });
        drop(counted);
        drop(replaced);
        tokio::spawn(watch(Arc::downgrade(&self.0), key, number, poll));
    }

    pub(super) fn end(&self, member: usize, id: &str) {
        drop(lock(&self.0).tasks.remove(&(member, id.into())));
    }
}

async fn watch(counted: Weak<Mutex<Counted>>, key: TaskKey, number: u64, poll: TaskPoll) {
    let is_counted = || {
        let counted = counted.upgrade();
        counted
            .is_some_and(|counted| lock(&counted).tasks.get(&key).is_some_and(|task| task.number == number))
    };
    loop {
        sleep(POLL_INTERVAL).await;
        if !is_counted() {
            return;
        }
        if poll.is_over().await {
            break;
        }
    }
    if is_counted()
        && let Some(counted) = counted.upgrade()
    {
        drop(lock(&counted).tasks.remove(&key));
    }
}

fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interval between two requests for the state of a task.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
