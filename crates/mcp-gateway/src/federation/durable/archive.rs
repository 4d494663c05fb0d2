//! The interface to the store of durable tasks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Stores tasks outside of this process. The records contain secrets, so an archive must encrypt them. Each operation
/// must end within a short time, because requests wait for it.
pub trait TaskArchive: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of this gateway in records.
    fn replica(&self) -> String;

    /// Returns `true` if the gateway with this name runs.
    fn is_live<'a>(&'a self, replica: &'a str) -> ArchiveFuture<'a, bool>;

    /// Stores the record of the task `id` for the time `ttl`. The archive lists the task for `caller`, if the
    /// caller has a verified name.
    fn put<'a>(
        &'a self,
        id: &'a str,
        caller: Option<&'a str>,
        record: Vec<u8>,
        ttl: Duration,
    ) -> ArchiveFuture<'a, Result<(), ArchiveError>>;

    /// Returns the record of the task `id`. Returns `None` if there is no record, or if another fleet has written it.
    fn get<'a>(&'a self, id: &'a str) -> ArchiveFuture<'a, Result<Option<Vec<u8>>, ArchiveError>>;

    /// Returns the records of the tasks of `caller`.
    fn list<'a>(&'a self, caller: &'a str) -> ArchiveFuture<'a, Result<Vec<Vec<u8>>, ArchiveError>>;

    /// Returns the maximum size of a record, in bytes.
    fn record_bytes_max(&self) -> usize;
}

/// A future of an archive.
pub type ArchiveFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The store has failed. The archive has reported the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchiveError;
