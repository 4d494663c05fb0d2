use crate::programs::server_sent_events::app;
use crate::site::{Connection, Site};

/// Subscribes to the events and reads the head of the response.
fn subscribe(site: &Site, fields: &str) -> Connection {
    let mut subscriber = site.connect();
    subscriber.send(format!("GET /events HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let head = subscriber.read_until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{head}");
    subscriber
}

fn post(site: &Site, text: &str) {
    assert_eq!(site.request("POST", "/messages", "", text.as_bytes()).status, 202);
}

#[test]
fn message_reaches_all_subscribers() {
    let site = Site::start(app());
    post(&site, "before");
    let mut subscribers = [subscribe(&site, ""), subscribe(&site, ""), subscribe(&site, "")];
    post(&site, "now");
    post(&site, "two\nlines");
    for subscriber in &mut subscribers {
        let received = subscriber.read_until("data: two\ndata: lines\nid: 3\n\n");
        assert!(received.contains("data: now\nid: 2\n\n") && !received.contains("before"), "{received}");
    }
}

#[test]
fn reconnecting_subscriber_gets_missed_messages() {
    let site = Site::start(app());
    for text in ["one", "two", "three"] {
        post(&site, text);
    }
    let mut subscriber = subscribe(&site, "Last-Event-ID: 1\r\n");
    let received = subscriber.read_until("data: three\nid: 3\n\n");
    assert!(received.contains("data: two\nid: 2\n\n") && !received.contains("one"), "{received}");
    let mut with_unknown_id = subscribe(&site, "Last-Event-ID: 99\r\n");
    post(&site, "four");
    let received = with_unknown_id.read_until("data: four\nid: 4\n\n");
    assert!(!received.contains("three"), "{received}");
    subscriber.read_until("data: four\nid: 4\n\n");
}

#[test]
fn disconnected_subscriber_does_not_affect_others() {
    let site = Site::start(app());
    drop(subscribe(&site, ""));
    let mut subscriber = subscribe(&site, "");
    for text in ["one", "two"] {
        post(&site, text);
    }
    subscriber.read_until("data: two\nid: 2\n\n");
    assert!(site.get("/").text().contains("new EventSource(\"/events\")"));
    assert_eq!(site.request("POST", "/messages", "", &[0xff]).status, 400);
}
