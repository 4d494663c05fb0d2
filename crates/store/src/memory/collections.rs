//! Values with several parts: leases of slots, sets and logs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::table::{Log, Value, value_of};
use super::values::MemoryStore;
use crate::error::StoreError;
use crate::operations::{LeaseGrant, LeaseRequest, LogPage, PAGE_BYTES_MAX};
use crate::store_key::StoreKey;

impl MemoryStore {
    pub(crate) fn lease(&self, key: &StoreKey, asked: LeaseRequest<'_>) -> Result<LeaseGrant, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        let leases = table.take(key.as_str(), now, value_of!(Leases))?;
        let mut owners = leases.map(|(owners, _)| owners).unwrap_or_default();
        owners.retain(|owner, (_, expires)| owner != asked.owner && *expires > now);
        let others: u64 = owners.values().map(|(slots, _)| slots).sum();
        let granted = asked.wanted.min(asked.max.saturating_sub(others));
        let is_full = owners.len() >= MEMBERS_MAX && granted > 0;
        if granted > 0 && !is_full {
            owners.insert(asked.owner.to_owned(), (granted, now + asked.ttl));
        }
        let count = owners.len() as u64;
        if let Some(expires) = owners.values().map(|(_, expires)| *expires).max() {
            table.put(key.as_str(), Value::Leases(owners), expires)?;
        }
        if is_full {
            return Err(StoreError::TooLarge);
        }
        Ok(LeaseGrant { granted, total: others + granted, owners: count })
    }

    pub(crate) fn return_lease(&self, key: &StoreKey, owner: &str) -> Result<(), StoreError> {
        let nothing = LeaseRequest { owner, wanted: 0, max: 0, ttl: Duration::ZERO };
        self.lease(key, nothing).map(drop)
    }

    pub(crate) fn put_member(
        &self,
        collection: &StoreKey,
        member: &str,
        value: Bytes,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        // A value of another kind is from another program.
        if self.list(collection) == Err(StoreError::UnknownFormat) {
            self.remove(collection)?;
        }
        self.change_members(collection, |members, now| {
            if members.len() >= MEMBERS_MAX && !members.contains_key(member) {
                return Err(StoreError::TooLarge);
            }
            members.insert(member.to_owned(), (value, now + ttl));
            Ok(())
        })
    }

    pub(crate) fn remove_member(&self, collection: &StoreKey, member: &str) -> Result<(), StoreError> {
        self.change_members(collection, |members, _| {
            members.remove(member);
            Ok(())
        })
    }

    pub(crate) fn list(&self, collection: &StoreKey) -> Result<Vec<(String, Bytes)>, StoreError> {
        let now = Instant::now();
        match self.table().get(collection.as_str(), now) {
            None => Ok(Vec::new()),
            Some(Value::Members(members)) => {
                let members = members.iter().filter(|(_, (_, expires))| *expires > now);
                let members: Vec<_> =
                    members.map(|(name, (value, _))| (name.clone(), value.clone())).collect();
                let bytes: usize = members.iter().map(|(name, value)| name.len() + value.len()).sum();
                if bytes > PAGE_BYTES_MAX { Err(StoreError::TooLarge) } else { Ok(members) }
            }
            Some(_) => Err(StoreError::UnknownFormat),
        }
    }

    pub(crate) fn append(
        &self,
        log: &StoreKey,
        entry: Bytes,
        entries_max: usize,
        ttl: Duration,
    ) -> Result<u64, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        let mut content = match table.take(log.as_str(), now, value_of!(Log))? {
            None => {
                let start = self.next_number();
                Log { start, next: start, entries: VecDeque::new(), bytes: 0 }
            }
            Some((content, _)) => content,
        };
        let position = content.next;
        content.next += 1;
        self.skip_to(content.next);
        content.bytes += entry.len();
        content.entries.push_back(entry);
        while content.entries.len() > entries_max {
            content.bytes -= content.entries.pop_front().map_or(0, |entry| entry.len());
        }
        table.put(log.as_str(), Value::Log(content), now + ttl)?;
        Ok(position)
    }

    pub(crate) fn read_after(
        &self,
        log: &StoreKey,
        position: u64,
        max: usize,
    ) -> Result<LogPage, StoreError> {
        let mut table = self.table();
        let content = match table.get(log.as_str(), Instant::now()) {
            None => return Ok(LogPage { entries: Vec::new(), is_complete: position == 0 }),
            Some(Value::Log(content)) => content,
            Some(_) => return Err(StoreError::UnknownFormat),
        };
        let first = content.next - content.entries.len() as u64;
        let is_complete = if position == 0 {
            first == content.start
        } else {
            (content.start.max(first.saturating_sub(1))..content.next).contains(&position)
        };
        let positioned = (first..).zip(&content.entries);
        let mut bytes = 0;
        let fits = |(_, entry): &(u64, &Bytes)| {
            bytes += entry.len();
            bytes <= PAGE_BYTES_MAX
        };
        let wanted = positioned.filter(|(at, _)| *at > position).take(max).take_while(fits);
        Ok(LogPage { entries: wanted.map(|(at, entry)| (at, entry.clone())).collect(), is_complete })
    }

    fn change_members(
        &self,
        collection: &StoreKey,
        change: impl FnOnce(&mut BTreeMap<String, (Bytes, Instant)>, Instant) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        let members = table.take(collection.as_str(), now, value_of!(Members))?;
        let mut members = members.map(|(members, _)| members).unwrap_or_default();
        members.retain(|_, (_, expires)| *expires > now);
        let changed = change(&mut members, now);
        if let Some(expires) = members.values().map(|(_, expires)| *expires).max() {
            table.put(collection.as_str(), Value::Members(members), expires)?;
        }
        changed
    }
}

/// Maximum number of members of a set, and of owners of slots.
const MEMBERS_MAX: usize = 1024;
