//! Tests of the search for the owner of a name or a URI.

use thruway_mcp::federated::ToolFilter;

use super::*;

#[tokio::test(start_paused = true)]
async fn prefixed_name_needs_no_list() {
    let silent = TestMember::scripted(true, |_, _| Answer::Never);
    let catalog = TestCatalog::prefixed(&[TestMember::with(&["x"]), silent.clone()]);
    let began = Instant::now();
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "b__x").await, Some((1, "x".to_owned())));
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "c__x").await, None);
    assert_eq!((began.elapsed(), silent.requests()), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn plain_name_belongs_to_its_only_claimant() {
    let members = [TestMember::with(&["x", "both"]), TestMember::with(&["y", "both"])];
    let catalog = TestCatalog::new(NameStyle::Plain, &[], &members);
    for (public, owner) in [("x", Some(0)), ("y", Some(1)), ("both", None), ("z", None)] {
        let expected = owner.map(|member| (member, public.to_owned()));
        assert_eq!(catalog.catalog.owner_of_name(TOOLS, public).await, expected, "{public}");
    }
    assert_eq!(catalog.names().await, ["x", "y"]);
    let clash = Withheld::Clash([0, 1].into());
    assert_eq!(catalog.withheld(), [0, 1].map(|member| (member, "both".into(), clash.clone())));
    let catalog = TestCatalog::new(NameStyle::Plain, &[1], &members);
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "both").await, Some((1, "both".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn lost_member_keeps_its_plain_names() {
    let members = [TestMember::with(&["x", "both"]), TestMember::with(&["both"])];
    let catalog = TestCatalog::new(NameStyle::Plain, &[], &members);
    assert_eq!(catalog.names().await, ["x"]);
    members[0].set_down(true);
    catalog.catalog.invalidate_member(0);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(catalog.names().await, [""; 0]);
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "both").await, None);
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "x").await, Some((0, "x".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn new_plain_name_is_found_although_the_last_copy_lacks_it() {
    let member = TestMember::scripted(false, |number, _| {
        let names: Vec<_> = (1..=number).map(|number| format!("x{number}")).collect();
        Answer::Result(page_with(&names, json!({"ttlMs": 0})))
    });
    let catalog = TestCatalog::new(NameStyle::Plain, &[], &[member, TestMember::with(&["y"])]);
    assert_eq!(catalog.names().await, ["x1", "y"]);
    assert_eq!(catalog.catalog.owner_of_name(TOOLS, "x2").await, Some((0, "x2".to_owned())));
}

/// Regression test: a client could see the difference between a hidden tool and an unknown tool, because the
/// calls of unknown tools reached the member.
#[tokio::test(start_paused = true)]
async fn hidden_and_unknown_names_have_no_owner_if_tools_are_hidden() {
    let deny = ToolFilter { deny: vec!["secret*".to_owned()], ..ToolFilter::default() }.compile().unwrap();
    let members = [TestMember::with(&["x"]), TestMember::with(&["y", "secret"])];
    let catalog = TestCatalog::with_filter(NameStyle::Prefixed, &[], &members, false, &deny);
    for (public, owner) in [
        ("b__y", Some(1)),
        ("b__secret", None),
        ("b__secret2", None),
        ("b__unknown", None),
        ("a__unknown", Some(0)),
    ] {
        assert_eq!(catalog.owner(public).await, owner, "{public}");
    }
    assert_eq!(members[0].requests(), 0, "nothing is hidden");
    assert_eq!(members[1].requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn new_tool_of_a_filtered_member_is_found() {
    let deny = ToolFilter { deny: vec!["secret".to_owned()], ..ToolFilter::default() }.compile().unwrap();
    let growing = TestMember::scripted(false, |number, _| {
        let names: Vec<_> = (1..=number).map(|number| format!("y{number}")).collect();
        Answer::Result(page_with(&names, json!({"ttlMs": 0})))
    });
    let members = [TestMember::with(&["x"]), growing];
    let catalog = TestCatalog::with_filter(NameStyle::Prefixed, &[], &members, false, &deny);
    for public in ["b__y1", "b__y2"] {
        assert_eq!(catalog.owner(public).await, Some(1), "{public}");
    }
}

/// The call then fails because the member is unavailable.
#[tokio::test(start_paused = true)]
async fn name_of_a_missing_filtered_member_belongs_to_it() {
    let deny = ToolFilter { deny: vec!["secret".to_owned()], ..ToolFilter::default() }.compile().unwrap();
    let members = [TestMember::with(&["x"]), TestMember::with(&["y"])];
    members[1].set_down(true);
    let catalog = TestCatalog::with_filter(NameStyle::Prefixed, &[], &members, false, &deny);
    assert_eq!(catalog.owner("b__y").await, Some(1));
    assert_eq!(catalog.owner("b__secret").await, None);
}

/// A member with resources and templates, by URI.
fn member_with_uris(
    resources: &'static [&'static str],
    templates: &'static [&'static str],
) -> Arc<TestMember> {
    TestMember::scripted(true, move |_, _| {
        let uri_templates = page(templates)["resourceTemplates"].take();
        Answer::Result(page_with(resources, json!({"resourceTemplates": uri_templates})))
    })
}

#[tokio::test(start_paused = true)]
async fn resource_belongs_to_the_first_member_that_lists_it_or_has_the_best_template() {
    let members = [
        member_with_uris(&["x:1", "x:2"], &["y:{id}", "{+any}"]),
        member_with_uris(&["x:2", "x:3"], &["y:special/{id}", "z:{id}"]),
    ];
    let catalog = TestCatalog::prefixed(&members);
    for (uri, owner) in
        [("x:1", 0), ("x:2", 0), ("x:3", 1), ("y:1", 0), ("y:special/1", 1), ("z:1", 1), ("other:1", 0)]
    {
        assert_eq!(catalog.catalog.owner_of_uri(uri).await, Some(owner), "{uri}");
    }
    let catalog = TestCatalog::prefixed(&members[1..]);
    assert_eq!(catalog.catalog.owner_of_uri("other:1").await, None);
}
