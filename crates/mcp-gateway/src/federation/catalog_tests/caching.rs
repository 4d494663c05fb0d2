//! Tests of caching, pages and cache hints.

use super::*;

#[tokio::test(start_paused = true)]
async fn concurrent_requests_cause_one_fetch() {
    let member = TestMember::scripted(true, |_, _| Answer::Slow(WAIT / 2, page(&["x"])));
    let catalog = Arc::new(TestCatalog::single(&member));
    let requests = (0..50).map(|_| {
        let catalog = catalog.clone();
        tokio::spawn(async move { catalog.names().await })
    });
    for names in requests.collect::<Vec<_>>() {
        assert_eq!(names.await.unwrap(), ["a__x"]);
    }
    assert_eq!(member.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn watched_list_is_kept_until_the_member_reports_a_change() {
    let member = TestMember::scripted(true, |number, _| {
        Answer::Result(page_with(&[format!("x{number}")], json!({"ttlMs": 0})))
    });
    let catalog = TestCatalog::prefixed(&[member]);
    assert_eq!(catalog.names().await, ["a__x1"]);
    sleep(Duration::from_mins(4)).await;
    let listing = catalog.tools().await;
    assert_eq!(listing.entries().next().unwrap().key.as_ref(), "a__x1");
    assert_eq!(listing.cache.ttl_ms, 0, "the member forbids clients to cache the list");
    catalog.catalog.invalidate(0, TOOLS);
    assert_eq!(catalog.names().await, ["a__x2"]);
    catalog.catalog.invalidate_member(0);
    assert_eq!(catalog.names().await, ["a__x3"]);
    assert_eq!(catalog.changes(), []);
}

#[tokio::test(start_paused = true)]
async fn stale_list_is_served_during_a_refresh() {
    let member = TestMember::scripted(false, |number, _| {
        let page = page_with(&[format!("x{number}")], json!({"ttlMs": 10_000}));
        if number == 1 { Answer::Result(page) } else { Answer::Slow(WAIT / 2, page) }
    });
    let catalog = TestCatalog::single(&member);
    assert_eq!(catalog.names().await, ["a__x1"]);
    sleep(Duration::from_secs(9)).await;
    let cache = catalog.tools().await.cache;
    assert_eq!((cache.ttl_ms, cache.cache_scope, member.requests()), (1000, CacheScope::Public, 1));
    sleep(Duration::from_secs(2)).await;
    let began = Instant::now();
    let listing = catalog.tools().await;
    assert_eq!((listing.entries().next().unwrap().key.as_ref(), listing.cache.ttl_ms), ("a__x1", 0));
    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(WAIT).await;
    assert_eq!(catalog.changes(), [TOOLS], "clients must learn that the stale list was outdated");
    assert_eq!(catalog.names().await, ["a__x2"]);
    // A copy that is too old for this is refreshed first.
    sleep(Duration::from_secs(30)).await;
    assert_eq!(catalog.names().await, ["a__x3"]);
    assert_eq!(catalog.changes(), [TOOLS], "other clients may still use the old list");
}

/// The gateway keeps the list of a legacy member for some seconds. Clients keep it until a notification.
#[tokio::test(start_paused = true)]
async fn change_that_the_member_does_not_report_is_announced_after_any_time() {
    for pause in [6, 11, 3600] {
        let member = TestMember::scripted(false, |number, _| {
            Answer::Result(json!({"tools": [{"name": format!("x{number}")}]}))
        });
        let catalog = TestCatalog::single(&member);
        assert_eq!(catalog.names().await, ["a__x1"]);
        sleep(Duration::from_secs(pause)).await;
        catalog.tools().await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(catalog.changes(), [TOOLS], "after {pause} s");
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_list_is_not_announced_after_a_refresh() {
    let catalog = TestCatalog::single(&TestMember::scripted(false, |_, _| Answer::Result(page(&["x"]))));
    for _ in 0..3 {
        assert_eq!(catalog.names().await, ["a__x"]);
        sleep(Duration::from_hours(1)).await;
    }
    assert_eq!(catalog.changes(), []);
}

#[tokio::test(start_paused = true)]
async fn unlimited_times_are_accepted() {
    let names = [(MemberName::try_from("a").unwrap(), CompiledFilter::default())];
    let names = Arc::new(EndpointNames::new(NameStyle::Prefixed, names, &[]));
    let options = CatalogOptions {
        list_wait: Duration::MAX,
        list_ttl_max: Duration::MAX,
        page_entries: 100,
        client_info: Implementation::new("gateway", "1"),
    };
    let slow = TestMember::scripted(true, |_, _| Answer::Slow(Duration::from_secs(30), page(&["x"])));
    let catalog =
        Catalog::new(names, vec![CatalogMember { source: slow, is_required: false }], options, |_| {});
    let listing = catalog.list(TOOLS, Revision::LATEST, None).await.unwrap();
    assert_eq!((listing.entries().count(), listing.cache.ttl_ms), (1, 60_000));
}

#[tokio::test(start_paused = true)]
async fn invalid_cursor_is_an_error() {
    let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"])]);
    let error = written(&catalog.tools().await, Some("1")).unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
}

#[tokio::test(start_paused = true)]
async fn scope_is_public_only_if_all_members_agree() {
    let private = TestMember::scripted(true, |_, _| {
        Answer::Result(page_with(&["y"], json!({"cacheScope": "private", "ttlMs": 600_000})))
    });
    let catalog = TestCatalog::prefixed(&[private.clone(), TestMember::with(&["x"])]);
    let cache = catalog.tools().await.cache;
    assert_eq!((cache.ttl_ms, cache.cache_scope), (60_000, CacheScope::Private));
    let cache = TestCatalog::prefixed(&[private]).tools().await.cache;
    assert_eq!(cache.ttl_ms, 300_000, "`list_ttl_max` limits the time");
}

#[tokio::test(start_paused = true)]
async fn legacy_client_gets_only_output_schemas_that_it_supports() {
    let member = TestMember::scripted(true, |_, _| {
        Answer::Result(json!({"tools": [
            {"name": "array", "outputSchema": {"type": "array"}, "title": "A"},
            {"name": "object", "outputSchema": {"type": "object"}},
        ]}))
    });
    let catalog = TestCatalog::single(&member);
    let schemas = async |revision| {
        let listing = catalog.catalog.list(TOOLS, revision, None).await.unwrap();
        let tools = written(&listing, None).unwrap()["tools"].take();
        assert_eq!((&tools[0]["name"], &tools[0]["title"]), (&json!("a__array"), &json!("A")));
        [0, 1].map(|tool| tools[tool].get("outputSchema").is_some())
    };
    assert_eq!(schemas(Revision::LATEST).await, [true, true]);
    assert_eq!(schemas(Revision::R20251125).await, [false, true]);
    assert_eq!(schemas(Revision::R20241105).await, [false, true]);
    assert_eq!(member.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn list_that_must_not_be_cached_is_fetched_for_each_request() {
    let member = TestMember::scripted(false, |number, _| {
        Answer::Result(page_with(&[format!("x{number}")], json!({"ttlMs": 0})))
    });
    let catalog = TestCatalog::prefixed(&[member]);
    for number in 1..5 {
        assert_eq!(catalog.names().await, [format!("a__x{number}")]);
    }
    assert_eq!(catalog.changes(), [], "no client has received an outdated list");
}
