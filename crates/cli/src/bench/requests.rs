//! What is sent, as the arguments say.

use std::fs;
use std::io::{Read, stdin};

use thruway_bench::{Expected, HttpRequest, HttpRequests, InvalidRequestsFile, RequestLine, Url, read_lines};

use super::args::HttpLoadArgs;
use crate::config::Failure;
use crate::headers::parse_headers;

/// The requests for `targets`, and a URL of the server that all of them are for.
pub(super) fn resolve(targets: &[String], args: &HttpLoadArgs) -> Result<(HttpRequests, Url), Failure> {
    let content = content(args)?;
    let mut requests = Vec::new();
    for target in targets {
        match target.strip_prefix('@') {
            Some(file) => requests.extend(of_file(file, args, &content)?),
            None => requests.push(request(parse_url(target)?, args, &content)?),
        }
    }
    let url = requests.first().map(|request| request.url.clone());
    let url = url.ok_or_else(|| Failure::new("there is no URL"))?;
    let is_other = |other: &Url| (&other.origin, other.is_https) != (&url.origin, url.is_https);
    if let Some(other) = requests.iter().find(|request| is_other(&request.url)) {
        let message = format!("`{}` and `{}` are different servers", url.origin, other.url.origin);
        return Err(Failure::new(message).with_hint("`thruway bench compare` loads several servers in turn"));
    }
    let prepared = HttpRequests::new(&requests);
    let prepared = if args.is_http2 { prepared.and_then(HttpRequests::for_http2) } else { prepared };
    let prepared = prepared.map_err(|error| {
        let failure = Failure::new(&error);
        error.hint().map_or(failure, |hint| Failure::new(&error).with_hint(hint))
    })?;
    Ok((prepared, url))
}

pub(super) fn parse_url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|error| {
        Failure::new(format!("`{}` cannot be loaded: {error}", text.escape_debug())).with_hint(error.hint())
    })
}

fn request(url: Url, args: &HttpLoadArgs, content: &[u8]) -> Result<HttpRequest, Failure> {
    let default = if args.content.is_some() { "POST" } else { "GET" };
    Ok(HttpRequest {
        url,
        method: args.method.clone().unwrap_or_else(|| default.to_owned()),
        headers: parse_headers(&args.load.header)?,
        content: content.to_vec(),
        is_persistent: !args.load.is_not_persistent,
        expected: args.expected(),
    })
}

fn content(args: &HttpLoadArgs) -> Result<Vec<u8>, Failure> {
    let Some(content) = &args.content else { return Ok(Vec::new()) };
    let read = match content.strip_prefix('@') {
        Some(file) => fs::read(file).map_err(|error| (format!("`{file}`"), error)),
        None if content == "-" => {
            let mut read = Vec::new();
            stdin()
                .read_to_end(&mut read)
                .map(|_| read)
                .map_err(|error| ("the standard input".to_owned(), error))
        }
        None => Ok(content.clone().into_bytes()),
    };
    read.map_err(|(what, error)| Failure::new(format!("{what} cannot be read: {error}")))
}

fn of_file(file: &str, args: &HttpLoadArgs, content: &[u8]) -> Result<Vec<HttpRequest>, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("`{file}` cannot be read: {error}")))?;
    let lines = read_lines(&text)
        .map_err(|error| Failure::new(format!("`{file}`, {error}")).with_hint(InvalidRequestsFile::HINT))?;
    lines.into_iter().map(|line| of_line(line, args, content)).collect()
}

/// A line of a file; what it does not say is as the arguments say.
fn of_line(line: RequestLine, args: &HttpLoadArgs, content: &[u8]) -> Result<HttpRequest, Failure> {
    let mut request = request(parse_url(&line.url)?, args, content)?;
    if let Some(content) = line.content {
        request.content = content.into_bytes();
        "POST".clone_into(&mut request.method);
    }
    if let Some(method) = line.method.or_else(|| args.method.clone()) {
        request.method = method;
    }
    if let Some(weight) = line.weight {
        if !(1..=1000).contains(&weight) {
            return Err(Failure::new(format!("the weight of `{}` is not from 1 to 1000", line.url)));
        }
        request.url.weight = weight;
    }
    request.headers.extend(line.headers);
    let digest =
        line.sha256.map(|digest| Expected::parse_digest(&digest)).transpose().map_err(Failure::new)?;
    let Expected { status, content_bytes, sha256 } = request.expected;
    request.expected = Expected {
        status: line.status.or(status),
        content_bytes: line.length.or(content_bytes),
        sha256: digest.or(sha256),
    };
    Ok(request)
}
