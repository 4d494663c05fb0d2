//! Tests of plain names of members that have not sent their lists yet.

use thruway_mcp::federated::ToolFilter;

use super::*;

/// Returns a catalog with plain names, and its members `a` and `b`. Both have the tool `x`, and `b` is down.
fn catalog_without_b(preferred: &[usize]) -> (TestCatalog, [Arc<TestMember>; 2]) {
    let members = [TestMember::with(&["x"]), TestMember::with(&["x"])];
    members[1].set_down(true);
    (TestCatalog::new(NameStyle::Plain, preferred, &members), members)
}

fn connect_b(catalog: &TestCatalog, members: &[Arc<TestMember>; 2]) {
    members[1].set_down(false);
    catalog.catalog.invalidate_member(1);
}

/// Regression test: after a failed attempt to connect to `b`, a call went to `a` at once.
#[tokio::test(start_paused = true)]
async fn call_waits_for_the_first_list_of_a_member_that_may_have_the_name() {
    for (preferred, owner) in [(&[][..], None), (&[1], Some(1))] {
        let (catalog, members) = catalog_without_b(preferred);
        let began = Instant::now();
        let connecting = async {
            sleep(WAIT / 2).await;
            connect_b(&catalog, &members);
        };
        let (found, ()) = tokio::join!(catalog.owner("x"), connecting);
        assert_eq!((found, began.elapsed()), (owner, WAIT / 2), "{preferred:?}");
        assert!(!catalog.catalog.has_unreserved_names(1));
    }
}

#[tokio::test(start_paused = true)]
async fn call_does_not_wait_for_a_member_that_cannot_claim_the_name() {
    let began = Instant::now();
    let (preferred, _) = catalog_without_b(&[0, 1]);
    preferred.names().await;
    assert_eq!(preferred.owner("x").await, Some(0));
    let only_y = ToolFilter { allow: vec!["y".to_owned()], ..ToolFilter::default() }.compile().unwrap();
    let members = [TestMember::with(&["x"]), TestMember::scripted(true, |_, _| Answer::Never)];
    let filtered = TestCatalog::with_filter(NameStyle::Plain, &[], &members, false, &only_y);
    assert_eq!(filtered.owner("x").await, Some(0));
    assert!(began.elapsed() <= WAIT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn names_of_a_member_are_not_reserved_after_list_wait() {
    for preferred in [&[][..], &[1]] {
        let (catalog, members) = catalog_without_b(preferred);
        assert!(!catalog.catalog.has_unreserved_names(1), "no client has requested the list yet");
        let began = Instant::now();
        assert_eq!(catalog.owner("x").await, Some(0));
        assert_eq!(began.elapsed(), WAIT);
        assert_eq!(catalog.owner("x").await, Some(0));
        assert_eq!(began.elapsed(), WAIT, "later calls do not wait again");
        assert_eq!([0, 1].map(|member| catalog.catalog.has_unreserved_names(member)), [false, true]);
        connect_b(&catalog, &members);
        assert_eq!(catalog.names().await.len(), preferred.len());
        assert_eq!(catalog.owner("x").await, preferred.first().copied());
        assert!(!catalog.catalog.has_unreserved_names(1));
    }
}

#[tokio::test(start_paused = true)]
async fn prefixed_names_are_always_reserved() {
    let members = [TestMember::with(&["x"]), TestMember::scripted(true, |_, _| Answer::Never)];
    let catalog = TestCatalog::prefixed(&members);
    assert_eq!(catalog.names().await, ["a__x"]);
    assert!(!catalog.catalog.has_unreserved_names(1));
}
