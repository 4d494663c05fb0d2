//! Replicas whose store fails, and replicas that fail.

use std::time::Duration;

use tokio::time::sleep;

use super::fleet::FakeStore;
use crate::policy::fleet::OnStoreFailure;

#[tokio::test(start_paused = true)]
async fn failing_store_is_detected_and_its_recovery_too() {
    let store = FakeStore::new();
    let replicas = store.replicas(3);
    let limits: Vec<_> =
        replicas.iter().map(|replica| replica.rate_limit(Duration::from_millis(10), 100)).collect();
    store.set_failing(true);
    for (replica, limit) in replicas.iter().zip(&limits) {
        assert!(replica.admits(limit, 1, 0));
    }
    sleep(Duration::from_millis(300)).await;
    assert!(replicas.iter().all(|replica| !replica.limits.is_store_available()));
    sleep(Duration::from_mins(1)).await;
    let probes = replicas.iter().map(|replica| replica.limits.counts().round_trips).sum::<u64>();
    assert!(probes < 3 * 70, "{probes}");
    store.set_failing(false);
    sleep(Duration::from_secs(4)).await;
    assert!(replicas.iter().all(|replica| replica.limits.is_store_available()));
    let mut admitted = 0;
    for _ in 0..1000 {
        for (replica, limit) in replicas.iter().zip(&limits) {
            admitted += u32::from(replica.admits(limit, 1, 0));
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert!((950..=1130).contains(&admitted), "{admitted}");
}

#[tokio::test(start_paused = true)]
async fn quota_holds_for_the_fleet_and_starts_again_in_the_next_window() {
    let replicas = FakeStore::new().replicas(3);
    let quotas: Vec<_> = replicas.iter().map(|replica| replica.quota(1000)).collect();
    for window in [10, 20] {
        let mut admitted = 0;
        for _ in 0..2000 {
            for (replica, quota) in replicas.iter().zip(&quotas) {
                admitted += u32::from(replica.admits(quota, 1, window));
            }
            sleep(Duration::from_millis(5)).await;
        }
        assert!((1000..=1010).contains(&admitted), "{admitted}");
    }
}

#[tokio::test(start_paused = true)]
async fn quota_can_be_used_up_by_one_replica() {
    let replicas = FakeStore::new().replicas(3);
    let quota = replicas[0].quota(10);
    let mut admitted = 0;
    for _ in 0..100 {
        admitted += u32::from(replicas[0].admits(&quota, 1, 10));
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(admitted, 10);
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_killed_replica_return() {
    let store = FakeStore::new();
    let mut replicas = store.replicas(2);
    let permits: Vec<_> = replicas.iter().map(|replica| replica.permits(10)).collect();
    let enter = |place: usize, replica: &super::fleet::Replica| {
        permits[place].enter(1, replica.now(), || replica.store_key(1))
    };
    let mut held = Vec::new();
    for _ in 0..100 {
        held.extend(enter(0, &replicas[0]));
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(held.len(), 10, "one replica can use all permits");
    sleep(Duration::from_secs(5)).await;
    // The second replica may use its share until its first answer.
    let optimistic: Vec<_> = (0..10).map_while(|_| enter(1, &replicas[1])).collect();
    assert_eq!(optimistic.len(), 5);
    drop(optimistic);
    sleep(Duration::from_millis(100)).await;
    assert!(enter(1, &replicas[1]).is_none());
    drop(replicas.remove(0));
    sleep(Duration::from_secs(4)).await;
    let replica = &replicas[0];
    let mut taken = Vec::new();
    for _ in 0..100 {
        taken.extend(enter(1, replica));
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(taken.len(), 10);
}

/// Refused requests used to leave their keys in memory for as long as the store failed.
#[tokio::test(start_paused = true)]
async fn refused_requests_need_no_memory_while_the_store_fails() {
    let replicas = FakeStore::new().replicas(1);
    let (replica, permits) = (&replicas[0], replicas[0].permits(10));
    for on_store_failure in
        [OnStoreFailure::Deny, OnStoreFailure::Local { share: None }, OnStoreFailure::Allow]
    {
        let is_admitted = (0..1000).all(|key| {
            permits.enter_without_store(key, on_store_failure, || replica.store_key(key)).is_some()
        });
        assert_eq!((is_admitted, permits.keys()), (on_store_failure != OnStoreFailure::Deny, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn two_busy_replicas_share_the_permits() {
    let replicas = FakeStore::new().replicas(2);
    let permits: Vec<_> = replicas.iter().map(|replica| replica.permits(20)).collect();
    let mut held = [const { Vec::new() }; 2];
    let mut random = fastrand::Rng::with_seed(3);
    let (mut most, mut sum) = (0, 0);
    for step in 0..3000 {
        for (place, replica) in replicas.iter().enumerate() {
            let held: &mut Vec<_> = &mut held[place];
            if !held.is_empty() && random.u32(0..4) == 0 {
                held.swap_remove(random.usize(0..held.len()));
            }
            held.extend(permits[place].enter(1, replica.now(), || replica.store_key(1)));
        }
        sleep(Duration::from_millis(10)).await;
        let in_flight = held[0].len() + held[1].len();
        if step > 10 {
            most = most.max(in_flight);
        }
        sum += in_flight;
    }
    assert!(most <= 20, "{most}");
    assert!(sum / 3000 >= 16, "{}", sum / 3000);
    assert!(held[0].len() >= 5 && held[1].len() >= 5, "{} {}", held[0].len(), held[1].len());
}
