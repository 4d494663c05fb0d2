//! The logs of upstreams and of the gateway: lines of JSON.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use thruway_testkit::request_parser::{self, ParsedRequest};

/// A request as an upstream saw it. Bytes are the characters of Latin 1.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Seen {
    /// Only servers that log what they refuse too say a status.
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

impl Seen {
    /// Reads a line of a log, or what an upstream tells in an answer.
    pub(super) fn parse(line: &[u8]) -> anyhow::Result<Self> {
        let text: String = line.iter().copied().map(char::from).collect();
        serde_json::from_str(&text).with_context(|| format!("an upstream told `{text}`"))
    }

    /// As a gateway's parser puts it: `METHOD TARGET`, and the content.
    pub(super) fn as_parsed(&self) -> ParsedRequest {
        let content = self.content.chars().map(|character| u8::try_from(character).unwrap_or(b'?'));
        (format!("{} {}", self.method, self.target), content.collect())
    }
}

/// The log of an upstream, read on from where it was read to.
pub(super) struct Log<'p> {
    path: &'p Path,
    read: usize,
}

impl<'p> Log<'p> {
    pub(super) fn new(path: &'p Path) -> Self {
        Self { path, read: 0 }
    }

    /// The complete requests of all lines that are complete, since this was asked last.
    pub(super) fn take(&mut self) -> anyhow::Result<Vec<Seen>> {
        let bytes = fs::read(self.path).unwrap_or_default();
        let new = &bytes[self.read..];
        let end = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.read += end;
        let lines = new[..end].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let seen: Vec<_> = lines.map(Seen::parse).collect::<anyhow::Result<_>>()?;
        Ok(seen.into_iter().filter(|seen| seen.status == ok()).collect())
    }
}

/// Returns the requests in the gateway's access log, complete or not: method, target behind the gateway, and
/// host.
pub(super) fn forwarded(access_log: &Path) -> anyhow::Result<Vec<[String; 3]>> {
    let text = fs::read_to_string(access_log).context("the gateway has no access log")?;
    let mut forwarded = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("it logged `{line}`"))?;
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
    fn lines_are_read_once_they_are_complete_and_not_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |start: &str| format!(r#"{{{start},"target":"/","host":"a","content":"\u00ff"}}"#);
        let refused = line(r#""status":400,"method":"GET""#);
        let [get, put] = ["GET", "PUT"].map(|method| line(&format!(r#""method":"{method}""#)));
        fs::write(file.path(), format!("{refused}\n{get}\n{put}")).unwrap();
        let mut log = Log::new(file.path());
        let [request] = &log.take().unwrap()[..] else { panic!("one line is complete and not refused") };
        assert_eq!(request.as_parsed(), ("GET /".to_owned(), vec![0xff]));
        fs::write(file.path(), format!("{refused}\n{get}\n{put}\n")).unwrap();
        assert_eq!(log.take().unwrap()[0].method, "PUT");
    }
}
