//! Buckets, counters and slots.

use std::time::Duration;

use thruway_store::{AddRequest, LeaseRequest, Store, TokenRequest};
use tokio::time::sleep;

use super::key;

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(120);

/// A bucket that gets a token every 100 ms, at most five tokens.
const fn bucket(wanted: u64) -> TokenRequest {
    TokenRequest { rate: 10, per: Duration::from_secs(1), burst: 5, wanted, returned: 0, spent: 0 }
}

pub(crate) async fn a_bucket_grants_its_burst_and_then_its_rate(store: Store) {
    let key = key("rate");
    assert_eq!(store.take_tokens(&key, bucket(3)).await.unwrap().granted, 3);
    let rest = store.take_tokens(&key, bucket(10)).await.unwrap().granted;
    assert!((2..=3).contains(&rest), "{rest}");
    sleep(Duration::from_millis(210)).await;
    let granted = store.take_tokens(&key, bucket(10)).await.unwrap().granted;
    assert!((2..=4).contains(&granted), "{granted}");
    sleep(Duration::from_millis(2600)).await;
    assert_eq!(store.take_tokens(&key, bucket(10)).await.unwrap().granted, 5);
}

pub(crate) async fn returned_tokens_are_granted_again(store: Store) {
    let key = key("rate");
    let slow = TokenRequest { per: Duration::from_hours(1), ..bucket(5) };
    assert_eq!(store.take_tokens(&key, slow).await.unwrap().granted, 5);
    assert_eq!(store.take_tokens(&key, slow).await.unwrap().granted, 0);
    let returned = TokenRequest { wanted: 0, returned: 2, ..slow };
    assert_eq!(store.take_tokens(&key, returned).await.unwrap().left, 2);
    assert_eq!(store.take_tokens(&key, slow).await.unwrap().granted, 2);
    let returned = TokenRequest { wanted: 9, returned: 100, ..slow };
    assert_eq!(store.take_tokens(&key, returned).await.unwrap().granted, 5);
}

pub(crate) async fn spent_tokens_become_debt_of_the_bucket(store: Store) {
    let key = key("rate");
    let slow = TokenRequest { rate: 1, per: Duration::from_mins(1), ..bucket(1) };
    let grant = store.take_tokens(&key, TokenRequest { spent: 3, ..slow }).await.unwrap();
    assert_eq!((grant.granted, grant.left), (1, 1));
    let grant = store.take_tokens(&key, TokenRequest { spent: 4, ..slow }).await.unwrap();
    assert_eq!((grant.granted, grant.left), (0, 0));
    let seconds = grant.next_after.as_secs_f64();
    assert!((238.0..=240.0).contains(&seconds), "{seconds}");
    let grant = store.take_tokens(&key, TokenRequest { spent: 1_000_000, ..slow }).await.unwrap();
    assert!(grant.next_after <= Duration::from_mins(51), "{grant:?}");
    let grant = store.take_tokens(&key, TokenRequest { returned: 1_000_000, ..slow }).await.unwrap();
    assert_eq!((grant.granted, grant.left), (1, 4));
}

pub(crate) async fn many_callers_get_no_more_than_the_bucket(store: Store) {
    let key = key("rate");
    let slow = TokenRequest { per: Duration::from_hours(1), burst: 1000, ..bucket(7) };
    let callers = (0..200).map(|_| {
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move { store.take_tokens(&key, slow).await.unwrap().granted })
    });
    let mut granted = 0;
    for caller in callers.collect::<Vec<_>>() {
        granted += caller.await.unwrap();
    }
    assert_eq!(granted, 1000);
}

pub(crate) async fn a_bucket_reports_the_time_to_the_next_token(store: Store) {
    let key = key("rate");
    let grant = store.take_tokens(&key, bucket(4)).await.unwrap();
    assert_eq!((grant.granted, grant.left, grant.next_after), (4, 1, Duration::ZERO));
    let hourly = TokenRequest { rate: 1, per: Duration::from_hours(1), ..bucket(5) };
    let key = super::key("rate");
    let grant = store.take_tokens(&key, hourly).await.unwrap();
    assert_eq!((grant.granted, grant.left), (5, 0));
    let seconds = grant.next_after.as_secs_f64();
    assert!((3598.0..=3600.0).contains(&seconds), "{seconds}");
}

pub(crate) async fn a_counter_stops_at_its_maximum(store: Store) {
    let key = key("quota");
    let add = |amount| AddRequest { amount, max: 100, ttl: LONG };
    let added = store.add(&key, add(70)).await.unwrap();
    assert_eq!((added.added, added.total), (70, 70));
    let added = store.add(&key, add(70)).await.unwrap();
    assert_eq!((added.added, added.total), (30, 100));
    assert_eq!(store.add(&key, add(1)).await.unwrap().added, 0);
    assert_eq!(store.subtract(&key, 40).await.unwrap(), 60);
    assert_eq!(store.add(&key, add(50)).await.unwrap().added, 40);
    assert_eq!(store.subtract(&key, 1000).await.unwrap(), 0);
    assert_eq!(store.subtract(&super::key("quota"), 1).await.unwrap(), 0);
    let unlimited = AddRequest { amount: u64::MAX, max: u64::MAX, ttl: LONG };
    assert_eq!(store.add(&key, unlimited).await.unwrap().total, 1 << 53);
}

pub(crate) async fn a_counter_expires_from_its_first_addition(store: Store) {
    let key = key("quota");
    let add = AddRequest { amount: 1, max: 100, ttl: SHORT };
    store.add(&key, add).await.unwrap();
    store.add(&key, AddRequest { ttl: LONG, ..add }).await.unwrap();
    store.subtract(&key, 1).await.unwrap();
    sleep(SHORT * 2).await;
    assert_eq!(store.add(&key, add).await.unwrap().total, 1);
}

pub(crate) async fn owners_share_slots(store: Store) {
    let key = key("slots");
    let lease = |owner, wanted| LeaseRequest { owner, wanted, max: 10, ttl: LONG };
    let grant = store.lease(&key, lease("a", 6)).await.unwrap();
    assert_eq!((grant.granted, grant.total, grant.owners), (6, 6, 1));
    let grant = store.lease(&key, lease("b", 6)).await.unwrap();
    assert_eq!((grant.granted, grant.total, grant.owners), (4, 10, 2));
    let grant = store.lease(&key, lease("c", 1)).await.unwrap();
    assert_eq!((grant.granted, grant.total, grant.owners), (0, 10, 2));
    assert_eq!(store.lease(&key, lease("a", 6)).await.unwrap().granted, 6);
    assert_eq!(store.lease(&key, lease("a", 2)).await.unwrap().granted, 2);
    assert_eq!(store.lease(&key, lease("b", 9)).await.unwrap().granted, 8);
    store.return_lease(&key, "b").await.unwrap();
    store.return_lease(&key, "b").await.unwrap();
    let grant = store.lease(&key, lease("c", 10)).await.unwrap();
    assert_eq!((grant.granted, grant.total, grant.owners), (8, 10, 2));
}

pub(crate) async fn an_owner_without_renewal_loses_its_slots(store: Store) {
    let key = key("slots");
    let lease = |owner, ttl| LeaseRequest { owner, wanted: 10, max: 10, ttl };
    assert_eq!(store.lease(&key, lease("a", SHORT)).await.unwrap().granted, 10);
    assert_eq!(store.lease(&key, lease("b", LONG)).await.unwrap().granted, 0);
    sleep(SHORT * 2).await;
    assert_eq!(store.lease(&key, lease("b", LONG)).await.unwrap().granted, 10);
    assert_eq!(store.lease(&key, lease("a", LONG)).await.unwrap().granted, 0);
}
