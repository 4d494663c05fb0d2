use super::super::InUse;
use super::*;
use crate::server::Changes;
use thruway_mcp::Revision;
use thruway_mcp::schema::InitializeRequestParams;

const SECOND: u64 = 1_000_000_000;

fn session() -> Session {
    let params: InitializeRequestParams = serde_json::from_str(
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}"#,
    )
    .unwrap();
    let subscription = Changes::default().subscribe([]).unwrap();
    Session::new(Revision::R20250618, &params, subscription)
}

fn limits(max: usize) -> SessionLimits {
    SessionLimits {
        idle: Duration::from_secs(10),
        max,
        per_principal_max: usize::MAX,
        per_address_max: usize::MAX,
    }
}

fn address(last: u8) -> Holder {
    Holder::new(None, Some([192, 0, 2, last].into()))
}

impl Sessions {
    /// Adds a session with creation time `now`.
    fn add(&self, now: u64, holder: &Holder) -> Result<Arc<str>, NoCapacity> {
        let session = Session { holder: holder.clone(), ..session() };
        session.last_used.store(now, std::sync::atomic::Ordering::Relaxed);
        self.insert_at(now, session)
    }

    /// Adds a session, and confirms it with a second message at once.
    fn add_confirmed(&self, now: u64, holder: &Holder) -> Arc<str> {
        let id = self.add(now, holder).unwrap();
        assert!(self.find_at(now, &id, None).is_some());
        id
    }

    fn has(&self, id: &str) -> bool {
        let table = self.lock();
        let (orders, slots) =
            (table.holders.values().map(|order| order.slots.len()).sum(), table.slots.len());
        assert_eq!(
            (table.order.slots.len(), slots),
            (slots, orders),
            "all orders should contain the same sessions"
        );
        table.slots.contains_key(id)
    }
}

#[test]
fn session_expires_after_idle_timeout() {
    let sessions = Sessions::new(limits(10));
    let id = sessions.add(0, &Holder::Unknown).unwrap();
    for now in [10, 20, 25] {
        assert!(sessions.find_at(now * SECOND, &id, None).is_some(), "at {now}");
    }
    assert!(sessions.find_at(36 * SECOND, &id, None).is_none());
    assert!(!sessions.has(&id));
}

#[test]
fn new_session_removes_expired_sessions() {
    let sessions = Sessions::new(limits(10));
    let id = sessions.add(0, &Holder::Unknown).unwrap();
    sessions.add(11 * SECOND, &Holder::Unknown).unwrap();
    assert!(!sessions.has(&id));
}

#[test]
fn session_in_use_does_not_expire() {
    let sessions = Sessions::new(limits(10));
    let id = sessions.add(0, &Holder::Unknown).unwrap();
    let stream = InUse::new(sessions.find_at(0, &id, None).unwrap());
    sessions.add(100 * SECOND, &Holder::Unknown).unwrap();
    assert!(sessions.find_at(100 * SECOND, &id, None).is_some());
    drop(stream);
    assert!(sessions.find_at(u64::MAX, &id, None).is_none());
}

/// Regression test: the time of the last use had a resolution of one second. Within a second, the server could
/// evict any session, even one that was just used.
#[test]
fn least_recently_used_session_is_evicted_with_ms_precision() {
    let sessions = Sessions::new(limits(2));
    let first = sessions.add_confirmed(1_000_000, &Holder::Unknown);
    let second = sessions.add_confirmed(2_000_000, &Holder::Unknown);
    sessions.find_at(3_000_000, &first, None).unwrap();
    sessions.add(4_000_000, &Holder::Unknown).unwrap();
    assert!(sessions.has(&first) && !sessions.has(&second));
}

/// Regression test: a flood of `initialize` evicted sessions with open streams and running calls.
#[test]
fn flood_evicts_neither_used_nor_confirmed_sessions() {
    let sessions = Sessions::new(limits(100));
    let in_use: Vec<_> = (0..10).map(|_| sessions.add_confirmed(0, &address(1))).collect();
    let streams: Vec<_> = in_use.iter().map(|id| sessions.find_at(0, id, None).unwrap()).collect();
    let idle: Vec<_> = (0..10).map(|_| sessions.add_confirmed(0, &address(1))).collect();
    for now in 1..10_050 {
        sessions.add(now, &address(2)).unwrap();
    }
    assert!(in_use.iter().chain(&idle).all(|id| sessions.has(id)));
    assert_eq!(sessions.lock().slots.len(), 100, "the number of sessions should be limited");
    drop(streams);
}

/// Regression test: a flood of confirmed sessions evicted the idle sessions of all other callers.
#[test]
fn caller_over_its_share_evicts_its_own_sessions() {
    let sessions = Sessions::new(limits(100));
    let idle: Vec<_> = (10..30).map(|last| sessions.add_confirmed(0, &address(last))).collect();
    for now in 1..1000 {
        sessions.add_confirmed(now, &address(1));
    }
    assert!(idle.iter().all(|id| sessions.has(id)));
    // A client without a session evicts the session with the oldest last use, of any owner.
    sessions.add(1001, &address(200)).unwrap();
    assert_eq!(idle.iter().filter(|id| sessions.has(id)).count(), 19);
}

#[test]
fn new_session_is_rejected_while_all_are_in_use() {
    let sessions = Sessions::new(limits(3));
    let ids: Vec<_> = (0..3).map(|_| sessions.add_confirmed(0, &Holder::Unknown)).collect();
    let mut streams: Vec<_> = ids.iter().map(|id| sessions.find_at(0, id, None).unwrap()).collect();
    assert_eq!(sessions.add(1, &Holder::Unknown), Err(NoCapacity));
    drop(streams.remove(1));
    sessions.add(2 + EXHAUSTED_PERIOD, &Holder::Unknown).unwrap();
    assert!(sessions.has(&ids[0]) && !sessions.has(&ids[1]) && sessions.has(&ids[2]));
}

/// Sessions in use precede idle ones in the order until a search has visited them.
#[test]
fn idle_session_among_many_in_use_is_evicted() {
    let sessions = Sessions::new(limits(500));
    let ids: Vec<_> = (0..500).map(|_| sessions.add_confirmed(0, &Holder::Unknown)).collect();
    let _streams: Vec<_> = ids[1..].iter().map(|id| sessions.find_at(0, id, None).unwrap()).collect();
    sessions.find_at(5, &ids[0], None).unwrap();
    // At the same time as its last use.
    sessions.add(5, &Holder::Unknown).unwrap();
    assert!(!sessions.has(&ids[0]) && sessions.has(&ids[1]));
}

#[test]
fn caller_at_its_quota_evicts_its_own_sessions() {
    let limits = SessionLimits { per_address_max: 2, per_principal_max: 3, ..limits(100) };
    let sessions = Sessions::new(limits);
    let other = sessions.add(0, &address(2)).unwrap();
    let principal = Holder::new(Some("issuer subject".to_owned()), Some([192, 0, 2, 2].into()));
    for (holder, quota) in [(address(1), 2), (principal, 3)] {
        let ids: Vec<_> = (1..6).map(|now| sessions.add(now, &holder).unwrap()).collect();
        assert!(ids.iter().rev().take(quota).all(|id| sessions.has(id)));
        assert!(!ids.iter().rev().skip(quota).any(|id| sessions.has(id)));
        let _streams: Vec<_> =
            ids.iter().filter_map(|id| Some(sessions.lock().slots.get(&**id)?.session.clone())).collect();
        assert_eq!(sessions.add(7, &holder), Err(NoCapacity));
    }
    assert!(sessions.has(&other));
}

#[test]
fn anonymous_callers_are_grouped_by_ipv4_address_or_ipv6_network() {
    let of = |address: &str| Holder::new(None, Some(address.parse().unwrap()));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(Holder::new(None, None), Holder::Unknown);
}
