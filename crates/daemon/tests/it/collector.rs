//! Scripted HTTP servers for tests of tracing: upstream servers and collectors.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use thruway_testkit::otlp::{DecodedSpan, decode_request};
use thruway_testkit::otlp_metrics::{DecodedMetric, decode_metrics};

use crate::client::TIMEOUT;

/// The response of a collector that accepts a batch.
pub(crate) const ACCEPTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A server that responds with `responses` in their order, and repeats the last one. It sends the heads and the
/// bodies of the requests to a channel.
pub(crate) fn serve(responses: &'static [&'static str]) -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    thread::spawn(move || {
        let mut responses = responses.iter().chain(std::iter::repeat(&responses[responses.len() - 1]));
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(request) = read_request(&mut stream) {
                if sender.send(request).is_err() {
                    return;
                }
                let response = responses.next().unwrap();
                if stream.get_mut().write_all(response.as_bytes()).is_err() || response.is_empty() {
                    break;
                }
            }
        }
    });
    (address, requests)
}

fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Waits for exports until they contain `count` spans.
pub(crate) fn receive_spans(
    exports: &Receiver<(String, Vec<u8>)>,
    count: usize,
) -> (BTreeMap<String, String>, Vec<DecodedSpan>) {
    let (mut resource, mut spans) = (BTreeMap::new(), Vec::new());
    while spans.len() < count {
        let (head, body) = exports.recv_timeout(TIMEOUT).unwrap();
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("X-Key: k\r\n") && head.contains("application/x-protobuf\r\n"), "{head}");
        let more = decode_request(&body);
        resource = more.0;
        spans.extend(more.1);
    }
    (resource, spans)
}

/// Waits for an export of metrics for which `accepts` returns `true`. Ignores exports of spans.
pub(crate) fn receive_metrics(
    exports: &Receiver<(String, Vec<u8>)>,
    accepts: impl Fn(&[DecodedMetric]) -> bool,
) -> (BTreeMap<String, String>, Vec<DecodedMetric>) {
    loop {
        let (head, body) = exports.recv_timeout(TIMEOUT).unwrap();
        if head.starts_with("POST /v1/metrics HTTP/1.1\r\n") {
            let (resource, metrics) = decode_metrics(&body);
            if accepts(&metrics) {
                return (resource, metrics);
            }
        }
    }
}

/// Returns the metric with this name.
pub(crate) fn metric<'m>(metrics: &'m [DecodedMetric], name: &str) -> Option<&'m DecodedMetric> {
    metrics.iter().find(|metric| metric.name == name)
}

/// Returns the number of values in all histograms of a metric.
pub(crate) fn total_count(metrics: &[DecodedMetric], name: &str) -> u64 {
    metric(metrics, name).map_or(0, |metric| metric.points.iter().map(|point| point.count).sum())
}
