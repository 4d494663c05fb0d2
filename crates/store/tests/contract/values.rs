//! Plain values, sets, logs and messages.

use std::time::Duration;

use bytes::Bytes;
use thruway_store::{AddRequest, Store, StoreError, StoreKey, SubscriptionEvent};
use tokio::time::sleep;

use super::{bytes, key};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(120);

pub(crate) async fn a_value_expires(store: Store) {
    let key = key("value");
    assert_eq!(store.get(&key).await.unwrap(), None);
    store.set(&key, bytes("first"), SHORT).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap(), Some(bytes("first")));
    sleep(SHORT * 2).await;
    assert_eq!(store.get(&key).await.unwrap(), None);
    let binary = (0..=255).collect::<Bytes>();
    store.set(&key, binary.clone(), LONG).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap(), Some(binary));
}

pub(crate) async fn a_value_is_set_once(store: Store) {
    let key = key("value");
    assert!(store.set_if_absent(&key, bytes("first"), SHORT).await.unwrap());
    assert!(!store.set_if_absent(&key, bytes("second"), LONG).await.unwrap());
    assert_eq!(store.get(&key).await.unwrap(), Some(bytes("first")));
    sleep(SHORT * 2).await;
    assert!(store.set_if_absent(&key, bytes("third"), LONG).await.unwrap());
}

pub(crate) async fn removed_values_are_gone(store: Store) {
    let key = key("value");
    store.set(&key, bytes("first"), LONG).await.unwrap();
    store.remove(&key).await.unwrap();
    store.remove(&key).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap(), None);
}

pub(crate) async fn members_expire_separately(store: Store) {
    let set = key("set");
    assert_eq!(store.list(&set).await.unwrap(), []);
    store.put_member(&set, "b", bytes("stays"), LONG).await.unwrap();
    store.put_member(&set, "a", bytes("goes"), SHORT).await.unwrap();
    store.put_member(&set, "c", bytes(""), LONG).await.unwrap();
    let all = [("a".into(), bytes("goes")), ("b".into(), bytes("stays")), ("c".into(), bytes(""))];
    assert_eq!(store.list(&set).await.unwrap(), all);
    sleep(SHORT * 2).await;
    assert_eq!(store.list(&set).await.unwrap(), all[1..]);
    store.remove_member(&set, "b").await.unwrap();
    store.put_member(&set, "c", bytes("new"), LONG).await.unwrap();
    assert_eq!(store.list(&set).await.unwrap(), [("c".into(), bytes("new"))]);
    store.remove_member(&set, "c").await.unwrap();
    assert_eq!(store.list(&set).await.unwrap(), []);
}

pub(crate) async fn sets_have_a_maximum(store: Store) {
    let set = key("set");
    for number in 0..1024 {
        store.put_member(&set, &number.to_string(), bytes("value"), LONG).await.unwrap();
    }
    let refused = store.put_member(&set, "one more", bytes("value"), LONG).await;
    assert_eq!(refused, Err(StoreError::TooLarge));
    store.put_member(&set, "7", bytes("value"), LONG).await.unwrap();
    assert_eq!(store.list(&set).await.unwrap().len(), 1024);
    store.remove(&set).await.unwrap();
}

pub(crate) async fn large_values_are_refused(store: Store) {
    let (key, large) = (key("value"), Bytes::from(vec![0; (1 << 20) + 1]));
    assert_eq!(store.set(&key, large, LONG).await, Err(StoreError::TooLarge));
    let largest = Bytes::from(vec![7; 1 << 20]);
    store.set(&key, largest.clone(), LONG).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap(), Some(largest));
    store.remove(&key).await.unwrap();
}

pub(crate) async fn large_logs_and_sets_are_not_returned_at_once(store: Store) {
    let (log, set, value) = (key("log"), key("set"), Bytes::from(vec![7; 1 << 20]));
    let first = store.append(&log, value.clone(), 10, LONG).await.unwrap();
    for _ in 0..8 {
        store.append(&log, value.clone(), 10, LONG).await.unwrap();
    }
    let page = store.read_after(&log, first - 1, 10).await.unwrap();
    let (last, count) = (page.entries.last().unwrap().0, page.entries.len());
    assert!((5..=6).contains(&count) && last == first + count as u64 - 1, "{count} {last}");
    let rest = store.read_after(&log, last, 10).await.unwrap();
    assert_eq!((rest.entries.len(), rest.is_complete), (9 - count, true));
    for member in 0..7 {
        store.put_member(&set, &member.to_string(), value.clone(), LONG).await.unwrap();
    }
    let listed = store.list(&set).await.map(|members| members.len());
    assert_eq!(listed, Err(StoreError::TooLarge));
    store.remove_member(&set, "0").await.unwrap();
    store.remove_member(&set, "1").await.unwrap();
    assert_eq!(store.list(&set).await.unwrap().len(), 5);
    store.remove(&log).await.unwrap();
    store.remove(&set).await.unwrap();
}

pub(crate) async fn other_kinds_of_values_are_refused(store: Store) {
    let (value, set) = (key("value"), key("set"));
    store.set(&value, bytes("text"), LONG).await.unwrap();
    store.put_member(&set, "a", bytes("b"), LONG).await.unwrap();
    let add = AddRequest { amount: 1, max: 10, ttl: LONG };
    assert_eq!(store.add(&value, add).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.get(&set).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.list(&value).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.append(&set, bytes("entry"), 5, LONG).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.lock(&value, "a", LONG).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.get(&value).await.unwrap(), Some(bytes("text")));
    assert_eq!(store.list(&set).await.unwrap().len(), 1);
    // Otherwise, the gateways could not find each other until an operator removes the value.
    store.put_member(&value, "a", bytes("b"), LONG).await.unwrap();
    assert_eq!(store.list(&value).await.unwrap().len(), 1);
}

pub(crate) async fn a_log_keeps_the_newest_entries(store: Store) {
    let log = key("log");
    let first = store.append(&log, bytes("1"), 3, LONG).await.unwrap();
    assert!(first > 0);
    for (at, entry) in ["2", "3", "4", "5"].into_iter().enumerate() {
        let position = store.append(&log, bytes(entry), 3, LONG).await.unwrap();
        assert_eq!(position, first + 1 + at as u64);
    }
    let page = store.read_after(&log, first + 1, 10).await.unwrap();
    let kept = [(first + 2, bytes("3")), (first + 3, bytes("4")), (first + 4, bytes("5"))];
    assert_eq!((page.entries.as_slice(), page.is_complete), (kept.as_slice(), true));
    let page = store.read_after(&log, first + 2, 1).await.unwrap();
    assert_eq!((page.entries.as_slice(), page.is_complete), (&kept[1..2], true));
    let page = store.read_after(&log, first + 4, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.is_complete), (0, true));
}

pub(crate) async fn readers_of_a_log_notice_missing_entries(store: Store) {
    let log = key("log");
    let page = store.read_after(&log, 0, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.is_complete), (0, true));
    let first = store.append(&log, bytes("1"), 2, LONG).await.unwrap();
    let page = store.read_after(&log, 0, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.is_complete), (1, true));
    for _ in 0..3 {
        store.append(&log, bytes("more"), 2, SHORT).await.unwrap();
    }
    for position in [0, first] {
        let page = store.read_after(&log, position, 10).await.unwrap();
        assert_eq!((page.entries.len(), page.is_complete), (2, false), "after {position}");
    }
    sleep(SHORT * 2).await;
    let page = store.read_after(&log, first + 3, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.is_complete), (0, false));
    let next = store.append(&log, bytes("again"), 2, LONG).await.unwrap();
    assert!(next > first + 3, "{next}");
    let page = store.read_after(&log, first + 3, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.is_complete), (1, false));
}

pub(crate) async fn subscribers_receive_messages_of_their_channel(store: Store) {
    let (channel, other) = (key("news"), key("news"));
    let mut first = store.subscribe(&channel);
    let mut second = store.subscribe(&channel);
    until_subscribed(&store, &channel, &mut first).await;
    until_subscribed(&store, &channel, &mut second).await;
    store.publish(&other, bytes("other")).await.unwrap();
    store.publish(&channel, bytes("message")).await.unwrap();
    for subscription in [&mut first, &mut second] {
        let event = loop {
            match subscription.next().await.unwrap() {
                SubscriptionEvent::Message(message) if message == "probe" => {}
                SubscriptionEvent::Gap => {}
                SubscriptionEvent::Message(message) => break message,
            }
        };
        assert_eq!(event, bytes("message"));
    }
    drop(first);
    store.publish(&channel, bytes("last")).await.unwrap();
    assert_eq!(second.next().await, Some(SubscriptionEvent::Message(bytes("last"))));
}

/// Publishes messages until the subscription receives one.
async fn until_subscribed(store: &Store, channel: &StoreKey, subscription: &mut thruway_store::Subscription) {
    loop {
        store.publish(channel, bytes("probe")).await.unwrap();
        let event = tokio::time::timeout(Duration::from_millis(100), subscription.next()).await;
        if matches!(event, Ok(Some(SubscriptionEvent::Message(_)))) {
            return;
        }
    }
}
