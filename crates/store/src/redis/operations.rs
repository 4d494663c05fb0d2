//! The operations as commands and scripts.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::backend::RedisStore;
use super::scripts::{self, Request, Script};
use crate::error::StoreError;
use crate::operations::{
    AddRequest, Added, Fence, LeaseGrant, LeaseRequest, LogPage, PAGE_BYTES_MAX, TokenGrant, TokenRequest,
    VALUE_MAX,
};
use crate::store_key::StoreKey;

impl RedisStore {
    pub(crate) async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        optional_bytes(self.send(self.script(&scripts::GET, key).number(VALUE_MAX as u64)).await?)
    }

    pub(crate) async fn set(&self, key: &StoreKey, value: Bytes, ttl: Duration) -> Result<(), StoreError> {
        let request = self.command("SET", key).arg(value).arg("PX").number(millis(ttl));
        self.send(request).await.map(drop)
    }

    pub(crate) async fn set_if_absent(
        &self,
        key: &StoreKey,
        value: Bytes,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let request = self.command("SET", key).arg(value).arg("PX").number(millis(ttl)).arg("NX");
        Ok(self.send(request).await? != Value::Nil)
    }

    pub(crate) async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.send(self.command("DEL", key)).await.map(drop)
    }

    pub(crate) async fn take_tokens(
        &self,
        key: &StoreKey,
        asked: TokenRequest,
    ) -> Result<TokenGrant, StoreError> {
        let per = u64::try_from(asked.per.as_micros()).unwrap_or(u64::MAX).max(1);
        let request = self.script(&scripts::TAKE_TOKENS, key).number(asked.rate).number(per);
        let request =
            request.number(asked.burst).number(asked.wanted).number(asked.returned).number(asked.spent);
        let [granted, left, next] = numbers(self.send(request.number(LIFETIME_MAX)).await?)?;
        Ok(TokenGrant { granted, left, next_after: Duration::from_micros(next) })
    }

    pub(crate) async fn add(&self, key: &StoreKey, asked: AddRequest) -> Result<Added, StoreError> {
        let request = self.script(&scripts::ADD, key).number(asked.amount).number(asked.max);
        let [added, total] = numbers(self.send(request.number(millis(asked.ttl))).await?)?;
        Ok(Added { added, total })
    }

    pub(crate) async fn subtract(&self, key: &StoreKey, amount: u64) -> Result<u64, StoreError> {
        number(&self.send(self.script(&scripts::SUBTRACT, key).number(amount)).await?)
    }

    pub(crate) async fn lease(
        &self,
        key: &StoreKey,
        asked: LeaseRequest<'_>,
    ) -> Result<LeaseGrant, StoreError> {
        let request = self.script(&scripts::LEASE, key).arg(asked.owner.to_owned());
        let request = request.number(asked.wanted).number(asked.max).number(millis(asked.ttl));
        let [granted, total, owners] = numbers(self.send(request.number(MEMBERS_MAX)).await?)?;
        Ok(LeaseGrant { granted, total, owners })
    }

    pub(crate) async fn return_lease(&self, key: &StoreKey, owner: &str) -> Result<(), StoreError> {
        let nothing = LeaseRequest { owner, wanted: 0, max: 0, ttl: Duration::from_secs(1) };
        self.lease(key, nothing).await.map(drop)
    }

    pub(crate) async fn lock(
        &self,
        key: &StoreKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Fence>, StoreError> {
        let request = self.script(&scripts::LOCK, key).arg(owner.to_owned()).number(millis(ttl));
        match self.send(request.number(FENCE_LIFETIME)).await? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            fence => number(&fence).map(|fence| Some(Fence(fence))),
        }
    }

    pub(crate) async fn renew_lock(
        &self,
        key: &StoreKey,
        fence: Fence,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let request = self.script(&scripts::RENEW_LOCK, key).number(fence.0).number(millis(ttl));
        number(&self.send(request.number(FENCE_LIFETIME)).await?).map(|renewed| renewed == 1)
    }

    pub(crate) async fn unlock(&self, key: &StoreKey, fence: Fence) -> Result<bool, StoreError> {
        self.renew_lock(key, fence, Duration::ZERO).await
    }

    pub(crate) async fn set_fenced(
        &self,
        key: &StoreKey,
        value: Bytes,
        fence: Fence,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let request = self.script(&scripts::SET_FENCED, key).arg(value).number(fence.0).number(millis(ttl));
        number(&self.send(request).await?).map(|is_set| is_set == 1)
    }

    pub(crate) async fn fenced_value(&self, key: &StoreKey) -> Result<Option<(Fence, Bytes)>, StoreError> {
        let request = self.script(&scripts::GET_FENCED, key).number(VALUE_MAX as u64);
        let [fence, value] = exactly(self.send(request).await?)?;
        match (optional_bytes(fence)?, optional_bytes(value)?) {
            (Some(fence), Some(value)) => Ok(Some((Fence(parse(&fence)?), value))),
            _ => Ok(None),
        }
    }

    pub(crate) async fn put_member(
        &self,
        collection: &StoreKey,
        member: &str,
        value: Bytes,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let request = self.script(&scripts::PUT_MEMBER, collection).arg(member.to_owned()).arg(value);
        self.send(request.number(millis(ttl)).number(MEMBERS_MAX)).await.map(drop)
    }

    pub(crate) async fn remove_member(&self, collection: &StoreKey, member: &str) -> Result<(), StoreError> {
        self.send(self.command("HDEL", collection).arg(member.to_owned())).await.map(drop)
    }

    pub(crate) async fn list(&self, collection: &StoreKey) -> Result<Vec<(String, Bytes)>, StoreError> {
        let request = self.script(&scripts::LIST, collection).number(PAGE_BYTES_MAX as u64);
        let values = array(self.send(request.number((VALUE_MAX + EXPIRY_MAX) as u64)).await?)?;
        let mut members = Vec::with_capacity(values.len() / 2);
        let mut values = values.into_iter();
        while let (Some(name), Some(value)) = (values.next(), values.next()) {
            // Only another program writes a name that is not UTF-8.
            if let Ok(name) = String::from_utf8(bytes(name)?.into()) {
                members.push((name, bytes(value)?));
            }
        }
        members.sort();
        Ok(members)
    }

    pub(crate) async fn append(
        &self,
        log: &StoreKey,
        entry: Bytes,
        entries_max: usize,
        ttl: Duration,
    ) -> Result<u64, StoreError> {
        let request = self.script(&scripts::APPEND, log).arg(entry).number(entries_max as u64);
        number(&self.send(request.number(millis(ttl))).await?)
    }

    pub(crate) async fn read_after(
        &self,
        log: &StoreKey,
        position: u64,
        max: usize,
    ) -> Result<LogPage, StoreError> {
        let request = self.script(&scripts::READ_AFTER, log).number(position).number(max as u64);
        let request = request.number(PAGE_BYTES_MAX as u64);
        let mut elements = array(self.send(request).await?)?.into_iter();
        let is_complete = number(&elements.next().ok_or(StoreError::UnknownFormat)?)? == 1;
        let entries = elements.map(|element| log_entry(&bytes(element)?)).collect::<Result<_, _>>()?;
        Ok(LogPage { entries, is_complete })
    }

    pub(crate) async fn publish(&self, channel: &StoreKey, message: Bytes) -> Result<(), StoreError> {
        self.send(self.command("PUBLISH", channel).arg(message)).await.map(drop)
    }

    fn command(&self, name: &'static str, key: &StoreKey) -> Request {
        Request::command(name).arg(self.key(key))
    }

    fn script(&self, script: &'static Script, key: &StoreKey) -> Request {
        Request::script(script, self.key(key))
    }
}

/// Splits an element of a log: the position, the first position ever, and the entry.
fn log_entry(element: &Bytes) -> Result<(u64, Bytes), StoreError> {
    let mut spaces = element.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let (Some(first), Some(second)) = (spaces.next(), spaces.next()) else {
        return Err(StoreError::UnknownFormat);
    };
    Ok((parse(&element[..first])?, element.slice(second + 1..)))
}

fn numbers<const N: usize>(value: Value) -> Result<[u64; N], StoreError> {
    let values: [Value; N] = exactly(value)?;
    let mut numbers = [0; N];
    for (number_in, value) in numbers.iter_mut().zip(&values) {
        *number_in = number(value)?;
    }
    Ok(numbers)
}

fn exactly<const N: usize>(value: Value) -> Result<[Value; N], StoreError> {
    array(value)?.try_into().map_err(|_| StoreError::UnknownFormat)
}

fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(StoreError::UnknownFormat),
    }
}

fn number(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| StoreError::UnknownFormat),
        Value::BulkString(digits) => parse(digits),
        _ => Err(StoreError::UnknownFormat),
    }
}

fn parse(digits: &[u8]) -> Result<u64, StoreError> {
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or(StoreError::UnknownFormat)
}

fn bytes(value: Value) -> Result<Bytes, StoreError> {
    optional_bytes(value)?.ok_or(StoreError::UnknownFormat)
}

fn optional_bytes(value: Value) -> Result<Option<Bytes>, StoreError> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        _ => Err(StoreError::UnknownFormat),
    }
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(LIFETIME_MAX)
}

/// Maximum lifetime of a bucket, in milliseconds.
const LIFETIME_MAX: u64 = 366 * 24 * 3_600_000;

/// Time for which the number of a released lock is kept, in milliseconds.
const FENCE_LIFETIME: u64 = 24 * 3_600_000;

/// Maximum number of members of a set, and of owners of slots.
const MEMBERS_MAX: u64 = 1024;

/// Maximum length of the time of expiry in front of a value, with a space.
const EXPIRY_MAX: usize = 20;
