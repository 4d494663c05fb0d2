//! Creates HTTP requests from URLs, from request files, and from options that apply to all requests.

use std::fs;
use std::io::{Read as _, stdin};
use std::sync::Arc;

use super::error::PlanError;
use super::options::LoadOptions;
use super::reach::resolve_origin;
use crate::requests::{Expected, HttpRequest, HttpRequests, LoadUrl, RequestLine, read_lines};
use crate::run::Load;
use crate::stop::StopFlag;
use crate::worker::ConnectionOptions;

/// Options of HTTP requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HttpOptions {
    /// The method. Default: `GET`, or `POST` if there is a body.
    pub method: Option<String>,
    /// Additional header fields of each request, as names and values.
    pub headers: Vec<(String, String)>,
    /// The request body, which may contain placeholders.
    pub content: Option<Vec<u8>>,
    /// Conditions that a response must meet to count as expected.
    pub expected: Expected,
    /// Number of concurrent requests on an HTTP/2 connection, or `None` for HTTP/1.1.
    pub http2_streams: Option<u16>,
}

impl HttpOptions {
    /// Creates the load for `targets`. Each target is a URL, or `@FILE` for a file of requests. All URLs must
    /// name the same server. The server need not listen yet: see
    /// [`reachable_address`](super::reach::reachable_address).
    ///
    /// # Errors
    /// Returns an error if the targets or these options cannot be used.
    pub fn load(
        &self,
        targets: &[String],
        options: &LoadOptions,
        stop: &StopFlag,
    ) -> Result<Load, PlanError> {
        options.check()?;
        let (requests, url) = self.requests(targets, options.is_persistent)?;
        let is_http2 = self.http2_streams.is_some();
        let tls = options.tls(&url, if is_http2 { "h2" } else { "http/1.1" })?;
        let load = options.load(Arc::new(requests), resolve_origin(&url.origin)?, stop);
        let pipeline = self.http2_streams.map_or(load.connection_options.pipeline, usize::from);
        let connection_options = ConnectionOptions { is_http2, pipeline, ..load.connection_options };
        Ok(Load { tls, connection_options, ..load })
    }

    /// Returns the requests for `targets`, and the first URL.
    fn requests(
        &self,
        targets: &[String],
        is_persistent: bool,
    ) -> Result<(HttpRequests, LoadUrl), PlanError> {
        let mut requests = Vec::new();
        for target in targets {
            match target.strip_prefix('@') {
                Some(file) => requests.extend(self.requests_of_file(file, is_persistent)?),
                None => requests.push(self.request(parse_url(target)?, is_persistent)),
            }
        }
        let url = requests.first().map(|request| request.url.clone()).ok_or(PlanError::UrlMissing)?;
        let is_other = |other: &LoadUrl| (&other.origin, other.is_https) != (&url.origin, url.is_https);
        if let Some(other) = requests.iter().find(|request| is_other(&request.url)) {
            return Err(PlanError::Servers(url.origin, other.url.origin.clone()));
        }
        let prepared = HttpRequests::new(&requests);
        let prepared =
            if self.http2_streams.is_some() { prepared.and_then(HttpRequests::for_http2) } else { prepared };
        Ok((prepared.map_err(PlanError::Request)?, url))
    }

    fn request(&self, url: LoadUrl, is_persistent: bool) -> HttpRequest {
        let default = if self.content.is_some() { "POST" } else { "GET" };
        HttpRequest {
            url,
            method: self.method.clone().unwrap_or_else(|| default.to_owned()),
            headers: self.headers.clone(),
            content: self.content.clone().unwrap_or_default(),
            is_persistent,
            expected: self.expected,
        }
    }

    fn requests_of_file(&self, file: &str, is_persistent: bool) -> Result<Vec<HttpRequest>, PlanError> {
        let text = fs::read_to_string(file).map_err(|error| PlanError::Read(format!("`{file}`"), error))?;
        let lines = read_lines(&text).map_err(|error| PlanError::RequestsFile(file.to_owned(), error))?;
        lines.into_iter().map(|line| self.request_of_line(line, is_persistent)).collect()
    }

    /// Creates the request for one line of a request file. The options in `self` apply to all values that
    /// the line does not set.
    fn request_of_line(&self, line: RequestLine, is_persistent: bool) -> Result<HttpRequest, PlanError> {
        let mut request = self.request(parse_url(&line.url)?, is_persistent);
        if let Some(content) = line.content {
            request.content = content.into_bytes();
            "POST".clone_into(&mut request.method);
        }
        if let Some(method) = line.method.or_else(|| self.method.clone()) {
            request.method = method;
        }
        if let Some(weight) = line.weight {
            if !(1..=1000).contains(&weight) {
                return Err(PlanError::Weight(line.url));
            }
            request.url.weight = weight;
        }
        request.headers.extend(line.headers);
        let digest = line.sha256.map(|digest| Expected::parse_digest(&digest)).transpose();
        let Expected { status, content_bytes, sha256 } = request.expected;
        request.expected = Expected {
            status: line.status.or(status),
            content_bytes: line.length.or(content_bytes),
            sha256: digest.map_err(PlanError::Digest)?.or(sha256),
        };
        Ok(request)
    }
}

/// Parses a URL.
///
/// # Errors
/// Returns [`PlanError::Url`] if the URL is invalid.
pub fn parse_url(text: &str) -> Result<LoadUrl, PlanError> {
    LoadUrl::parse(text).map_err(|error| PlanError::Url(text.to_owned(), error))
}

/// Returns the body that the argument `text` describes: the content of a file for `@FILE`, standard input
/// for `-`, or the text itself.
///
/// # Errors
/// Returns an error if the file or the standard input cannot be read.
pub fn read_content(text: &str) -> Result<Vec<u8>, PlanError> {
    match text.strip_prefix('@') {
        Some(file) => fs::read(file).map_err(|error| PlanError::Read(format!("`{file}`"), error)),
        None if text == "-" => {
            let mut read = Vec::new();
            let outcome = stdin().read_to_end(&mut read);
            outcome.map_err(|error| PlanError::Read("the standard input".to_owned(), error))?;
            Ok(read)
        }
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Removes `Connection: close` and `Connection: keep-alive` from the header lines. Returns the remaining
/// lines, and `true` if one of the removed lines was `close`. The load generator writes these fields itself.
pub fn without_connection_option(header_lines: &[String]) -> (Vec<String>, bool) {
    let (mut others, mut closes) = (Vec::new(), false);
    for line in header_lines {
        match keeps_alive(line) {
            Some(is_persistent) => closes |= !is_persistent,
            None => others.push(line.clone()),
        }
    }
    (others, closes)
}

/// Returns `true` if the header line is `Connection: keep-alive`, and `false` if it is `Connection: close`.
/// Returns `None` for any other header line.
fn keeps_alive(line: &str) -> Option<bool> {
    let (name, value) = line.split_once(':')?;
    if !name.trim().eq_ignore_ascii_case("connection") {
        return None;
    }
    match value.trim() {
        value if value.eq_ignore_ascii_case("keep-alive") => Some(true),
        value if value.eq_ignore_ascii_case("close") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_header_is_parsed_and_not_sent() {
        for (line, expected) in [
            ("Connection: keep-alive", Some(true)),
            ("connection:Keep-Alive", Some(true)),
            ("CONNECTION: close ", Some(false)),
            ("Connection: upgrade", None),
            ("X-Connection: close", None),
            ("Connection", None),
        ] {
            assert_eq!(keeps_alive(line), expected, "{line}");
        }
        let header = ["A: b", "Connection: close", "C: d"].map(str::to_owned);
        assert_eq!(without_connection_option(&header), (vec!["A: b".to_owned(), "C: d".to_owned()], true));
    }
}
