//! Tests of large, slow, lost and faulty members.

use super::*;

#[tokio::test]
async fn member_with_3000_tools_in_pages_of_50_appears_completely() {
    let options = McpServerOptions { page_entries: 50, ..McpServerOptions::default() };
    let mut server = McpServer::with_options(Implementation::new("large", "1"), options);
    for number in 0..3000 {
        server = server.tool(Tool::new(format!("tool{number:04}")), || "done");
    }
    let catalog = TestCatalog::prefixed(&[TestMember::of(&server, true, None)]);
    let listing = catalog.tools().await;
    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = written(&listing, cursor.as_deref()).unwrap();
        names.extend(
            page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(pages, 30);
    assert_eq!(names, (0..3000).map(|number| format!("a__tool{number:04}")).collect::<Vec<_>>());
    assert_eq!(catalog.catalog.count(0, TOOLS), Some(3000));
    assert_eq!(catalog.withheld(), []);
}

#[tokio::test(start_paused = true)]
async fn list_omits_and_names_a_member_that_never_answers() {
    let silent = TestMember::scripted(true, |_, _| Answer::Never);
    let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"]), silent]);
    let began = Instant::now();
    let listing = catalog.tools().await;
    assert_eq!(began.elapsed(), WAIT);
    let page = written(&listing, None).unwrap();
    assert_eq!(page["tools"].as_array().unwrap().len(), 1);
    assert_eq!(page["tools"][0]["name"], "a__x");
    assert_eq!(page["_meta"]["thruway/missing"], json!(["b"]));
    assert_eq!((&page["ttlMs"], &page["resultType"]), (&json!(5000), &json!("complete")));
    let legacy = catalog.catalog.list(TOOLS, Revision::R20251125, None).await.unwrap();
    let page = written(&legacy, None).unwrap();
    assert_eq!(page["_meta"], json!({"thruway/missing": ["b"]}));
    assert_eq!(page.as_object().unwrap().len(), 2);
    assert_eq!(began.elapsed(), WAIT, "later requests should not wait for the same fetch again");
}

#[tokio::test(start_paused = true)]
async fn list_of_a_slow_member_is_announced_when_it_arrives() {
    let slow = TestMember::scripted(true, |_, _| Answer::Slow(3 * WAIT, page(&["y"])));
    let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"]), slow]);
    assert_eq!(catalog.names().await, ["a__x"]);
    sleep(WAIT).await;
    assert_eq!(catalog.changes(), []);
    sleep(2 * WAIT).await;
    assert_eq!(catalog.changes(), [TOOLS]);
    assert_eq!(catalog.names().await, ["a__x", "b__y"]);
    assert!(catalog.tools().await.missing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn list_without_a_required_member_is_an_error() {
    let silent = TestMember::scripted(true, |_, _| Answer::Never);
    let catalog = TestCatalog::with_required(NameStyle::Prefixed, &[], &[silent], true);
    let error = Error::from(catalog.catalog.list(TOOLS, Revision::LATEST, None).await.unwrap_err());
    assert_eq!((error.code, error.data), (ErrorCode::INTERNAL_ERROR, Some(json!({"server": "a"}))));
}

/// The name of a member can be secret for callers that cannot use it.
#[tokio::test(start_paused = true)]
async fn list_names_only_missing_members_that_the_caller_can_use() {
    let silent = || TestMember::scripted(true, |_, _| Answer::Never);
    let rules = |tools: &str| {
        let rule = Rule { tools: vec![tools.to_owned()], ..Rule::default() };
        AccessRules::compile(&[rule]).unwrap().unwrap()
    };
    for (style, tools, expected) in [
        (NameStyle::Prefixed, "a__*", None),
        (NameStyle::Prefixed, "b__x", Some("b")),
        (NameStyle::Prefixed, "*", Some("b")),
        (NameStyle::Plain, "a__*", Some("b")),
    ] {
        for is_required in [false, true] {
            let members = [TestMember::with(&["x"]), silent()];
            let catalog = TestCatalog::with_required(style, &[], &members, is_required);
            let rules = rules(tools);
            let access = rules.access_of(&Caller::Local);
            match catalog.catalog.list(TOOLS, Revision::LATEST, Some(&access)).await {
                Ok(listing) => {
                    let missing: Vec<_> = listing.missing.iter().map(MemberName::as_str).collect();
                    assert_eq!(missing, Vec::from_iter(expected), "{tools}");
                    assert_eq!(listing.cache.ttl_ms <= 5000, expected.is_some(), "{tools}");
                }
                Err(missing) => {
                    assert!(is_required);
                    assert_eq!(Some(missing.name.as_str()), expected, "{tools}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn last_copy_of_a_lost_member_is_used_for_10_minutes() {
    let members = [TestMember::with(&["x"]), TestMember::with(&["y"])];
    let catalog = TestCatalog::prefixed(&members);
    assert_eq!(catalog.names().await, ["a__x", "b__y"]);
    members[1].set_down(true);
    catalog.catalog.invalidate_member(1);
    for _ in 0..9 {
        sleep(Duration::from_mins(1)).await;
        let listing = catalog.tools().await;
        assert_eq!((listing.entries().count(), listing.missing.len(), listing.cache.ttl_ms), (2, 0, 0));
    }
    sleep(Duration::from_mins(2)).await;
    assert_eq!(catalog.names().await, ["a__x"]);
    assert_eq!(catalog.missing().await, ["b"]);
    assert_eq!(catalog.changes(), []);
    // The list is the same as before, but clients have received a list without it.
    members[1].set_down(false);
    catalog.catalog.invalidate_member(1);
    assert_eq!(catalog.names().await, ["a__x", "b__y"]);
    assert_eq!(catalog.changes(), [TOOLS]);
}

#[tokio::test(start_paused = true)]
async fn failed_fetch_is_repeated_after_a_pause() {
    let member = TestMember::scripted(true, |number, _| match number {
        1 => Answer::Error(Error::internal("not yet")),
        _ => Answer::Result(page(&["x"])),
    });
    let catalog = TestCatalog::single(&member);
    for _ in 0..10 {
        assert_eq!(catalog.missing().await, ["a"]);
    }
    assert_eq!(member.requests(), 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(catalog.names().await, ["a__x"]);
}

#[tokio::test(start_paused = true)]
async fn list_that_changes_during_paging_is_fetched_again() {
    let catalog = Arc::new(OnceLock::<Arc<TestCatalog>>::new());
    let changing = catalog.clone();
    // The second request is for the second page. The list changes before the member answers it.
    let member = TestMember::scripted(true, move |number, cursor| {
        if number == 2 {
            changing.get().unwrap().catalog.invalidate(0, TOOLS);
        }
        let (is_old, is_first) = (number == 1, cursor.is_none());
        Answer::Result(match (is_old, is_first) {
            (true, _) => page_with(&["old1", "kept"], json!({"nextCursor": "2"})),
            (false, true) => page_with(&["kept"], json!({"nextCursor": "2"})),
            (false, false) => page(&["new1", "new2"]),
        })
    });
    let catalog = catalog.get_or_init(|| Arc::new(TestCatalog::single(&member)));
    assert_eq!(catalog.names().await, ["a__kept", "a__new1", "a__new2"]);
    assert_eq!(member.requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn rejected_cursor_restarts_the_fetch() {
    let member = TestMember::scripted(true, |number, cursor| match (number, cursor) {
        (2, _) => Answer::Error(Error::invalid_params("unknown cursor")),
        (_, None) => Answer::Result(page_with(&["x"], json!({"nextCursor": "2"}))),
        (_, Some(_)) => Answer::Result(page(&["y"])),
    });
    let catalog = TestCatalog::prefixed(&[member]);
    assert_eq!(catalog.names().await, ["a__x", "a__y"]);
}

#[tokio::test(start_paused = true)]
async fn list_that_always_changes_is_used_without_being_fresh() {
    let catalog = Arc::new(OnceLock::<Arc<TestCatalog>>::new());
    let changing = catalog.clone();
    let member = TestMember::scripted(true, move |_, _| {
        changing.get().unwrap().catalog.invalidate(0, TOOLS);
        Answer::Result(page(&["x"]))
    });
    let catalog = catalog.get_or_init(|| Arc::new(TestCatalog::single(&member)));
    assert_eq!(catalog.names().await, ["a__x"]);
    assert_eq!(member.requests(), 3);
    assert_eq!(catalog.names().await, ["a__x"]);
    assert_eq!(member.requests(), 6);
}

#[tokio::test(start_paused = true)]
async fn endless_list_ends_after_64_pages() {
    let member = TestMember::scripted(true, |number, _| {
        Answer::Result(page_with(&[format!("x{number:03}")], json!({"nextCursor": format!("{number}")})))
    });
    let catalog = TestCatalog::single(&member);
    assert_eq!(catalog.names().await.len(), 64);
    assert_eq!(member.requests(), 64);
    assert_eq!(catalog.withheld(), [(0, "".into(), Withheld::TooMany)]);
}

#[tokio::test(start_paused = true)]
async fn list_with_repeated_cursor_ends() {
    let member = TestMember::scripted(true, |number, _| {
        Answer::Result(page_with(&[format!("x{number}")], json!({"nextCursor": "again"})))
    });
    let catalog = TestCatalog::prefixed(&[member]);
    assert_eq!(catalog.names().await, ["a__x1", "a__x2"]);
    assert_eq!(catalog.withheld(), [(0, "".into(), Withheld::TooMany)]);
}

#[tokio::test(start_paused = true)]
async fn list_has_at_most_10000_items() {
    let member = TestMember::scripted(true, |number, _| {
        let names: Vec<_> = (0..3000).map(|item| format!("x{number}-{item}")).collect();
        Answer::Result(page_with(&names, json!({"nextCursor": format!("{number}")})))
    });
    let catalog = TestCatalog::single(&member);
    assert_eq!(catalog.names().await.len(), 10_000);
    assert_eq!(member.requests(), 4);
    assert_eq!(catalog.withheld(), [(0, "".into(), Withheld::TooMany)]);
}

#[tokio::test(start_paused = true)]
async fn garbage_of_one_member_does_not_affect_the_others() {
    for garbage in [
        json!([]),
        json!({}),
        json!({"tools": "x"}),
        json!({"tools": {}}),
        json!({"tools": [], "nextCursor": 5}),
        json!({"tools": null}),
    ] {
        let member = TestMember::scripted(true, move |_, _| Answer::Result(garbage.clone()));
        let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"]), member]);
        assert_eq!(catalog.names().await, ["a__x"]);
        assert_eq!(catalog.missing().await, ["b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_item_does_not_affect_the_other_items() {
    let member = TestMember::scripted(true, |_, _| {
        Answer::Result(json!({"tools": [1, {"name": "x"}, {}, {"name": ""}, {"name": "x"}]}))
    });
    let catalog = TestCatalog::prefixed(&[member]);
    assert_eq!(catalog.names().await, ["a__x"]);
    let withheld = [
        (0, "".into(), Withheld::Invalid),
        (0, "x".into(), Withheld::Duplicate),
        (0, "#1".into(), Withheld::Invalid),
        (0, "#3".into(), Withheld::Invalid),
    ];
    assert_eq!(catalog.withheld(), withheld);
}

#[tokio::test(start_paused = true)]
async fn missing_list_of_a_member_counts_as_empty() {
    let member = TestMember::scripted(true, |_, _| {
        Answer::Error(Error::new(ErrorCode::METHOD_NOT_FOUND, "no such method"))
    });
    let catalog = TestCatalog::prefixed(&[member]);
    assert!(catalog.tools().await.missing.is_empty());
    let server = McpServer::new("only tools", "1").tool(Tool::new("x"), || "done");
    let catalog = TestCatalog::prefixed(&[TestMember::of(&server, true, None)]);
    let listing = catalog.catalog.list(ListKind::Prompts, Revision::LATEST, None).await.unwrap();
    assert_eq!((listing.entries().count(), listing.missing.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn list_of_10_mb_is_accepted_and_larger_message_is_refused() {
    for (length, count) in [(10 << 20, 2), (17 << 20, 1)] {
        let large = TestMember::scripted(true, move |_, _| {
            Answer::Result(json!({"tools": [{"name": "y", "description": "x".repeat(length)}]}))
        });
        let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"]), large]);
        assert_eq!(catalog.names().await.len(), count);
    }
}
