//! Clients that a cookie brings to the same server again.

use thruway_gateway::{Sticky, UpstreamConfig};

use crate::backend::Backend;
use crate::gateway::Gateway;

fn config(backends: &[Backend]) -> UpstreamConfig {
    let sticky = Some(Sticky::new("server"));
    UpstreamConfig { sticky, ..UpstreamConfig::new("a", backends.iter().map(Backend::upstream_address)) }
}

#[test]
fn a_client_that_brings_its_cookie_stays_where_it_was() {
    let backends = ["one", "two", "three"].map(Backend::named);
    let gateway = Gateway::start(config(&backends));
    for _ in 0..3 {
        let first = gateway.get();
        let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap();
        assert!(!cookie.contains("127"), "{cookie}");
        for _ in 0..5 {
            let again = gateway.ask("GET", &format!("Cookie: a=b; {cookie}\r\n"));
            assert_eq!((&again.content, again.field("set-cookie")), (&first.content, None));
        }
    }
}

#[test]
fn a_client_whose_server_has_gone_or_is_unknown_is_given_another() {
    let mut backends = ["one", "two"].map(Backend::named);
    let gateway = Gateway::start(config(&backends));
    let first = gateway.get();
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let gone = backends.iter_mut().zip(["one", "two"]).find(|(_, name)| *name == first.content);
    gone.unwrap().0.leave();
    let moved = gateway.ask("GET", &format!("Cookie: {cookie}\r\n"));
    assert_eq!(moved.status, 200);
    assert_ne!(moved.content, first.content);
    assert!(moved.field("set-cookie").is_some());
    for made_up in ["server=0000000000000000", "server=one", "server="] {
        let got = gateway.ask("GET", &format!("Cookie: {made_up}\r\n"));
        assert!(got.status == 200 && got.field("set-cookie").is_some());
    }
}
