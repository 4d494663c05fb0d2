//! The configs of the README and of the user guide are valid.

use super::{resolved, violations};

const PAGES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../../../../README.md")),
    ("from-one-gateway-to-many.md", include_str!("../../../../../docs/guide/from-one-gateway-to-many.md")),
    ("gateway.md", include_str!("../../../../../docs/guide/gateway.md")),
    ("mcp-client-and-bridge.md", include_str!("../../../../../docs/guide/mcp-client-and-bridge.md")),
    ("mcp-federation.md", include_str!("../../../../../docs/guide/mcp-federation.md")),
    ("mcp-from-other-gateways.md", include_str!("../../../../../docs/guide/mcp-from-other-gateways.md")),
    ("migrating-from-haproxy.md", include_str!("../../../../../docs/guide/migrating-from-haproxy.md")),
    ("migrating-from-nginx.md", include_str!("../../../../../docs/guide/migrating-from-nginx.md")),
    ("operations.md", include_str!("../../../../../docs/guide/operations.md")),
    ("policies.md", include_str!("../../../../../docs/guide/policies.md")),
    ("serve.md", include_str!("../../../../../docs/guide/serve.md")),
    ("tls.md", include_str!("../../../../../docs/guide/tls.md")),
    ("what-is-my-gateway-doing.md", include_str!("../../../../../docs/guide/what-is-my-gateway-doing.md")),
];

/// Returns the blocks of a page that start with this line.
fn blocks<'p>(page: &'p str, start: &'p str) -> impl Iterator<Item = &'p str> {
    page.split(start).skip(1).filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block))
}

#[test]
fn configs_in_readme_and_guide_are_valid() {
    let mut count = 0;
    for (name, page) in PAGES {
        for block in blocks(page, "```toml\n") {
            assert_eq!(violations(block), [""; 0], "{name}:\n{block}");
            // Some configs name certificates and password files, which do not exist here.
            if let Err(failure) = resolved(block) {
                let failure = failure.to_string();
                assert!(failure.contains("cannot read"), "{name}:\n{block}\n{failure}");
            }
            count += 1;
        }
        for block in blocks(page, "```toml fragment\n") {
            assert_eq!(violations(block), [""; 0], "{name}:\n{block}");
        }
    }
    assert!(count >= 20, "{count} configs were found");
}

#[test]
fn guide_lists_all_errors_of_proxy_status() {
    let (_, page) = PAGES.iter().find(|(name, _)| *name == "gateway.md").unwrap();
    for error in thruway_gateway::Failure::PROXY_ERRORS {
        assert!(page.contains(&format!("`{error}`")), "{error}");
    }
}
