//! The configuration reference of the user guide is current.

use crate::config::reference;

#[test]
fn configuration_reference_is_current() {
    let committed = include_str!("../../../../../docs/guide/configuration.md");
    assert!(
        committed == reference(),
        "docs/guide/configuration.md is stale; rewrite it: \
         cargo run -p thruway-daemon --example reference > docs/guide/configuration.md"
    );
}
