//! Keys that expire, within a bound of memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::operations::Fence;

/// A value of any kind.
#[derive(Debug)]
pub(super) enum Value {
    Plain(Bytes),
    Fenced(Fence, Bytes),
    /// Number of tokens at a time.
    Tokens((f64, Instant)),
    Counter(u64),
    /// Number of slots of each owner, and the time when they expire.
    Leases(BTreeMap<String, (u64, Instant)>),
    Lock(Lock),
    Members(BTreeMap<String, (Bytes, Instant)>),
    Log(Log),
}

/// The last acquisition of a lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) owner: String,
    pub(super) fence: Fence,
    pub(super) until: Instant,
}

/// Entries with consecutive positions.
#[derive(Debug)]
pub(super) struct Log {
    /// Position of the first entry ever.
    pub(super) start: u64,
    /// Position of the next entry.
    pub(super) next: u64,
    pub(super) entries: VecDeque<Bytes>,
    pub(super) bytes: usize,
}

/// Returns the content of a value if it has the kind `$kind`, and gives back other values.
macro_rules! value_of {
    ($kind:ident) => {
        |value| match value {
            Value::$kind(content) => Ok(content),
            other => Err(other),
        }
    };
}
pub(super) use value_of;

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Self::Plain(value) | Self::Fenced(_, value) => value.len(),
            Self::Tokens(..) | Self::Counter(_) => 0,
            Self::Leases(owners) => owners.keys().map(|owner| owner.len() + MEMBER_BYTES).sum(),
            Self::Lock(lock) => lock.owner.len(),
            Self::Members(members) => {
                members.iter().map(|(name, (value, _))| name.len() + value.len() + MEMBER_BYTES).sum()
            }
            Self::Log(log) => log.bytes + log.entries.len() * MEMBER_BYTES,
        }
    }
}

/// All keys. Every call removes some expired keys.
#[derive(Default, Debug)]
pub(super) struct Table {
    entries: HashMap<Arc<str>, Entry>,
    expiries: BTreeSet<(Instant, Arc<str>)>,
    /// Number of bytes of keys and values.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    expires: Instant,
    bytes: usize,
}

impl Table {
    /// Returns the value of a key that has not expired.
    pub(super) fn get(&mut self, key: &str, now: Instant) -> Option<&Value> {
        self.remove_expired(now);
        let entry = self.entries.get(key).filter(|entry| entry.expires > now)?;
        Some(&entry.value)
    }

    /// Removes a key, and returns its value and the time when it would have expired. `parse` returns the value
    /// if it has the right kind, and gives it back otherwise.
    ///
    /// # Errors
    /// The value has another kind. It stays in the table.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        now: Instant,
        parse: impl FnOnce(Value) -> Result<T, Value>,
    ) -> Result<Option<(T, Instant)>, StoreError> {
        self.remove_expired(now);
        let Some(Entry { value, expires, .. }) = self.remove(key).filter(|entry| entry.expires > now) else {
            return Ok(None);
        };
        match parse(value) {
            Ok(value) => Ok(Some((value, expires))),
            Err(value) => {
                self.put(key, value, expires)?;
                Err(StoreError::UnknownFormat)
            }
        }
    }

    /// Adds or replaces a key.
    ///
    /// # Errors
    /// The memory is full.
    pub(super) fn put(&mut self, key: &str, value: Value, expires: Instant) -> Result<(), StoreError> {
        self.remove(key);
        let bytes = KEY_BYTES + 2 * key.len() + value.bytes();
        if self.bytes + bytes > BYTES_MAX {
            return Err(StoreError::Full);
        }
        let key: Arc<str> = key.into();
        self.bytes += bytes;
        self.expiries.insert((expires, key.clone()));
        self.entries.insert(key, Entry { value, expires, bytes });
        Ok(())
    }

    /// Removes a key with a value of any kind.
    pub(super) fn discard(&mut self, key: &str) {
        self.remove(key);
    }

    fn remove(&mut self, key: &str) -> Option<Entry> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.bytes -= entry.bytes;
        self.expiries.remove(&(entry.expires, key));
        Some(entry)
    }

    fn remove_expired(&mut self, now: Instant) {
        for _ in 0..REMOVED_PER_CALL {
            let Some((expires, key)) = self.expiries.first() else { return };
            if *expires > now {
                return;
            }
            let key = key.clone();
            self.remove(&key);
        }
    }
}

/// Number of expired keys that one call removes. Each call adds at most one key, so expired keys do not
/// accumulate, and no call takes long.
const REMOVED_PER_CALL: usize = 4;

/// Approximate number of bytes that a key needs besides its name and its value.
const KEY_BYTES: usize = 200;

/// Approximate number of bytes that a member or an entry needs besides its name and its value.
const MEMBER_BYTES: usize = 64;

/// Maximum number of bytes of all keys and values.
const BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn expired_keys_need_no_memory() {
        let (mut table, mut now) = (Table::default(), Instant::now());
        for number in 0..1000 {
            now += Duration::from_millis(1);
            table.get("none", now);
            let value = Value::Plain(Bytes::from_static(b"value"));
            table.put(&format!("key {number}"), value, now + Duration::from_millis(10)).unwrap();
        }
        assert!(table.entries.len() <= 10, "{}", table.entries.len());
        for _ in 0..10 {
            table.get("none", now + Duration::from_secs(1));
        }
        assert_eq!((table.entries.len(), table.expiries.len(), table.bytes), (0, 0, 0));
    }

    #[test]
    fn the_memory_has_a_bound() {
        let mut table = Table::default();
        let later = Instant::now() + Duration::from_secs(10);
        let large = Bytes::from(vec![0; 1 << 20]);
        let full = (0..300).find(|number| {
            table.put(&number.to_string(), Value::Plain(large.clone()), later) == Err(StoreError::Full)
        });
        assert_eq!(full, Some(255));
        table.discard("1");
        table.put("255", Value::Plain(large), later).unwrap();
    }
}
