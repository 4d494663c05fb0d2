use crate::programs::server_sent_events::app;
use crate::site::{Conversation, Site};

/// Subscribes to the events and reads the head of the response.
fn listen(site: &Site, fields: &str) -> Conversation {
    let mut listener = site.connect();
    listener.send(format!("GET /events HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let head = listener.read_until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{head}");
    listener
}

fn post(site: &Site, text: &str) {
    assert_eq!(site.ask("POST", "/messages", "", text.as_bytes()).status, 202);
}

#[test]
fn a_message_reaches_everybody_who_listens() {
    let site = Site::start(app());
    post(&site, "before");
    let mut listeners = [listen(&site, ""), listen(&site, ""), listen(&site, "")];
    post(&site, "now");
    post(&site, "two\nlines");
    for listener in &mut listeners {
        let heard = listener.read_until("data: two\ndata: lines\nid: 3\n\n");
        assert!(heard.contains("data: now\nid: 2\n\n") && !heard.contains("before"), "{heard}");
    }
}

#[test]
fn who_was_away_gets_what_was_missed() {
    let site = Site::start(app());
    for text in ["one", "two", "three"] {
        post(&site, text);
    }
    let mut listener = listen(&site, "Last-Event-ID: 1\r\n");
    let heard = listener.read_until("data: three\nid: 3\n\n");
    assert!(heard.contains("data: two\nid: 2\n\n") && !heard.contains("one"), "{heard}");
    let mut from_another_life = listen(&site, "Last-Event-ID: 99\r\n");
    post(&site, "four");
    let heard = from_another_life.read_until("data: four\nid: 4\n\n");
    assert!(!heard.contains("three"), "{heard}");
    listener.read_until("data: four\nid: 4\n\n");
}

#[test]
fn a_listener_who_goes_is_not_missed() {
    let site = Site::start(app());
    drop(listen(&site, ""));
    let mut listener = listen(&site, "");
    for text in ["one", "two"] {
        post(&site, text);
    }
    listener.read_until("data: two\nid: 2\n\n");
    assert!(site.get("/").text().contains("new EventSource(\"/events\")"));
    assert_eq!(site.ask("POST", "/messages", "", &[0xff]).status, 400);
}
