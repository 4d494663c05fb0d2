//! Reads the JSON logs of upstream servers and of the gateway.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use thruway_testkit::request_parser::{self, ParsedRequest};

/// A request that an upstream server saw. Each character of the texts is one byte (Latin-1).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct SeenRequest {
    /// Present only in the logs of servers that also log rejected requests. Default: 200.
    #[serde(default = "ok")]
    pub(super) status: u16,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) host: String,
    pub(super) content: String,
}

pub(super) const fn ok() -> u16 {
    200
}

impl SeenRequest {
    /// Parses a line of a log, or the body of a response that describes a request.
    pub(super) fn parse(line: &[u8]) -> anyhow::Result<Self> {
        let text: String = line.iter().copied().map(char::from).collect();
        serde_json::from_str(&text).with_context(|| format!("unexpected description of a request: `{text}`"))
    }

    /// Returns the request in the format of the gateway's parser: `METHOD TARGET`, and the body.
    pub(super) fn as_parsed(&self) -> ParsedRequest {
        let content = self.content.chars().map(|character| u8::try_from(character).unwrap_or(b'?'));
        (format!("{} {}", self.method, self.target), content.collect())
    }
}

/// The log of an upstream server, and the position up to which it was read.
pub(super) struct Log<'p> {
    path: &'p Path,
    read: usize,
}

impl<'p> Log<'p> {
    pub(super) fn new(path: &'p Path) -> Self {
        Self { path, read: 0 }
    }

    /// Returns the accepted requests of all complete lines that the server wrote since the last call.
    pub(super) fn take(&mut self) -> anyhow::Result<Vec<SeenRequest>> {
        let bytes = fs::read(self.path).unwrap_or_default();
        let new = &bytes[self.read..];
        let end = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.read += end;
        let lines = new[..end].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let seen: Vec<_> = lines.map(SeenRequest::parse).collect::<anyhow::Result<_>>()?;
        Ok(seen.into_iter().filter(|seen| seen.status == ok()).collect())
    }
}

/// Returns the forwarded requests in the gateway's access log, including incomplete requests. Each entry has
/// the method, the target that the gateway sent, and the host.
pub(super) fn forwarded(access_log: &Path) -> anyhow::Result<Vec<[String; 3]>> {
    let text = fs::read_to_string(access_log).context("cannot read the access log of the gateway")?;
    let mut forwarded = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)
            .with_context(|| format!("invalid line in the access log: `{line}`"))?;
        let text = |name: &str| line[name].as_str();
        let request = (text("upstream_server"), text("http.request.method"), text("url.path"));
        if let (Some(_), Some(method), Some(path)) = request {
            let query = text("url.query").map(|query| format!("?{query}")).unwrap_or_default();
            let port = line["server.port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
            let target = request_parser::forwarded_target(method, &format!("{path}{query}"));
            forwarded.push([
                method.to_owned(),
                target,
                text("server.address").unwrap_or_default().to_owned() + &port,
            ]);
        }
    }
    Ok(forwarded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lines_of_accepted_requests_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |start: &str| format!(r#"{{{start},"target":"/","host":"a","content":"\u00ff"}}"#);
        let rejected = line(r#""status":400,"method":"GET""#);
        let [get, put] = ["GET", "PUT"].map(|method| line(&format!(r#""method":"{method}""#)));
        fs::write(file.path(), format!("{rejected}\n{get}\n{put}")).unwrap();
        let mut log = Log::new(file.path());
        let [request] = &log.take().unwrap()[..] else { panic!("one line is complete and accepted") };
        assert_eq!(request.as_parsed(), ("GET /".to_owned(), vec![0xff]));
        fs::write(file.path(), format!("{rejected}\n{get}\n{put}\n")).unwrap();
        assert_eq!(log.take().unwrap()[0].method, "PUT");
    }
}
