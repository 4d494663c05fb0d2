//! The users of a password policy, and the password checks in progress.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;

use subtle::ConstantTimeEq as _;
use thruway_net::{Admitted, LogLimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::password::PasswordHash;
use crate::policy::credentials::Digest;
use crate::policy::refusal::Refusal;

pub(super) struct Users {
    by_name: HashMap<Arc<str>, User>,
    /// Names of all users. For an unknown user name, the policy checks the hash of one of these users.
    names: Vec<Arc<str>>,
    hasher: RandomState,
}

struct User {
    hash: PasswordHash,
    /// Digest of the user name and the verified password. This field is empty until the first successful
    /// check. One digest is enough, because each user has only one right password.
    verified: OnceLock<Digest>,
}

/// A password check in progress. The future resolves to the name of the user, or to a refusal.
pub(crate) type Verification = Pin<Box<dyn Future<Output = Result<Arc<str>, Refusal>>>>;

/// One permit for each thread that may check passwords. All policies together use at most half of the CPU
/// cores.
static THREADS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    Arc::new(Semaphore::new(thread::available_parallelism().map_or(1, usize::from).div_ceil(2)))
});

/// Checks passwords on separate threads.
#[derive(Debug)]
pub(super) struct Checker {
    /// One permit for each check in progress.
    threads: Arc<Semaphore>,
    /// One permit for each check that is waiting or in progress.
    places: Arc<Semaphore>,
}

/// A password to check, and the name of its user.
pub(super) struct Job {
    users: Arc<Users>,
    name: Box<str>,
    password: Box<str>,
    digest: Digest,
}

impl Users {
    pub(super) fn new(users: Vec<(String, PasswordHash)>) -> Self {
        let user = |(name, hash): (String, _)| (name.into(), User { hash, verified: OnceLock::new() });
        let by_name: HashMap<Arc<str>, User> = users.into_iter().map(user).collect();
        let mut names: Vec<_> = by_name.keys().cloned().collect();
        names.sort_unstable();
        Self { by_name, names, hasher: RandomState::new() }
    }

    /// Returns the name of the user if an earlier check has verified the same name and password. `digest`
    /// is the digest of the name and the password.
    pub(super) fn verified(&self, name: &str, digest: &Digest) -> Option<&str> {
        let (name, user) = self.by_name.get_key_value(name)?;
        let verified = user.verified.get()?;
        bool::from(verified.ct_eq(digest)).then_some(name)
    }

    /// Checks a password, and returns the name of the user if the password is right. For an unknown name,
    /// checks the hash of another user, so that the time does not reveal that the name is unknown. For the
    /// same unknown name, always checks the hash of the same user.
    pub(super) fn check(&self, job: &Job) -> Option<Arc<str>> {
        let Some((name, user)) = self.by_name.get_key_value(&*job.name) else {
            let place = self.hasher.hash_one(&job.name) % u64::try_from(self.names.len().max(1)).unwrap_or(1);
            let stand_in = self.names.get(usize::try_from(place).unwrap_or_default())?;
            self.by_name.get(stand_in)?.hash.is_of(&job.password);
            return None;
        };
        if !user.hash.is_of(&job.password) {
            return None;
        }
        // The digest is already set if another check of the same password has finished first.
        let _ = user.verified.set(job.digest);
        Some(name.clone())
    }
}

impl Checker {
    pub(super) fn new() -> Self {
        Self { threads: THREADS.clone(), places: Arc::new(Semaphore::new(PLACES)) }
    }

    /// Starts a password check. Returns `None` if too many checks wait already. If the password is wrong,
    /// the check resolves to `refusal`.
    pub(super) fn check(&self, job: Job, refusal: Refusal) -> Option<Verification> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let threads = self.threads.clone();
        Some(Box::pin(async move {
            let thread = threads.acquire_owned().await.map_err(|_| Refusal::Busy)?;
            if job.users.verified(&job.name, &job.digest).is_some() {
                return Ok(job.name.into());
            }
            job.run((place, thread)).await.map_err(|error| error.unwrap_or(refusal))
        }))
    }
}

impl Job {
    pub(super) fn new(users: Arc<Users>, name: &str, password: &str, digest: Digest) -> Self {
        Self { users, name: name.into(), password: password.into(), digest }
    }

    /// Runs the check on a separate thread. The thread keeps `permits` until the check ends, even if the
    /// client has left.
    async fn run(
        self,
        permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    ) -> Result<Arc<str>, Option<Refusal>> {
        let (sender, receiver) = oneshot::channel();
        let check = move || {
            // Sending fails if the client has left.
            let _ = sender.send(self.users.check(&self));
            drop(permits);
        };
        if let Err(error) = thread::Builder::new().name("password".to_owned()).spawn(check) {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::error!(%error, suppressed, "password check failed: cannot start a thread");
            }
            return Err(Some(Refusal::Busy));
        }
        receiver.await.ok().flatten().ok_or(None)
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

/// Maximum number of checks that wait or are in progress. For example, if each check takes 50 ms and two
/// checks run at a time, the longest wait is about six seconds.
pub(super) const PLACES: usize = 256;
