//! curl: every way to send and to receive content, and the connections it takes.

use std::fs;
use std::process::Command;

use anyhow::ensure;

use super::check::{Check, Scene, expect};

pub(super) const CHECKS: &[&Check] = &[
    &check("GET", get),
    &check("HEAD", head),
    &check("POST, Content-Length", post_with_length),
    &check("POST, chunked", post_chunked),
    &check("POST, Expect: 100-continue", post_after_continue),
    &check("GET, chunked response", receive_chunked),
    &check("GET, HTTP/1.0", receive_without_chunks),
    &check("three requests, one connection", reuse),
    &check("no such path", not_found),
    &check("server-sent events", events),
];

/// Those for a server with files.
pub(super) const FILE_CHECKS: &[&Check] = &[&check("GET, a file", file), &check("GET, a range", range)];

const fn check(what: &'static str, run: fn(&Scene<'_>) -> anyhow::Result<String>) -> Check {
    Check { client: "curl", what, run }
}

/// What curl says of its transfers, and the content of the last.
struct Seen {
    /// For each transfer: status, new connections, octets of content.
    facts: String,
    content: Vec<u8>,
}

fn curl(scene: &Scene<'_>, arguments: &[&str], path: &str) -> anyhow::Result<Seen> {
    let received = scene.directory.join("received");
    let mut command = Command::new("curl");
    // Neither a config nor a proxy of whoever runs this.
    command
        .args(["-q", "--noproxy", "*", "--silent", "--show-error"])
        .args(["--write-out", "%{http_code} %{num_connects} %{size_download}\\n"])
        .arg("--output")
        .arg(&received)
        .args(arguments)
        .arg(format!("{}{path}", scene.url))
        .current_dir(scene.directory);
    let facts = scene.output("curl", command)?;
    Ok(Seen { facts, content: fs::read(received)? })
}

fn get(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &[], "/plaintext")?;
    expect("facts", &seen.facts.as_str(), &"200 1 13\n")?;
    expect("content", &seen.content.as_slice(), &b"Hello, World!".as_slice())?;
    Ok("200, the content".to_owned())
}

fn head(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &["--head"], "/plaintext")?;
    expect("facts", &seen.facts.as_str(), &"200 1 0\n")?;
    let head = String::from_utf8_lossy(&seen.content).to_lowercase();
    ensure!(head.contains("content-length: 13\r\n"), "no length: {head:?}");
    Ok("200, the length, no content".to_owned())
}

fn post_with_length(scene: &Scene<'_>) -> anyhow::Result<String> {
    post(scene, &[])
}

fn post_chunked(scene: &Scene<'_>) -> anyhow::Result<String> {
    post(scene, &["--header", "Transfer-Encoding: chunked"])
}

/// Sends the content without waiting to be asked for it, and expects it back.
fn post(scene: &Scene<'_>, arguments: &[&str]) -> anyhow::Result<String> {
    let always = ["--header", "Expect:", "--data-binary", "@content"];
    let seen = curl(scene, &[&always, arguments].concat(), "/echo")?;
    let content = scene.content()?;
    expect("facts", &seen.facts, &format!("200 1 {}\n", content.len()))?;
    ensure!(seen.content == content, "what came back is something else");
    Ok(format!("200, {} octets came back", content.len()))
}

fn post_after_continue(scene: &Scene<'_>) -> anyhow::Result<String> {
    let wait = ["--header", "Expect: 100-continue", "--expect100-timeout", "15"];
    let seen =
        curl(scene, &[wait.as_slice(), &["--verbose", "--data-binary", "@content"]].concat(), "/echo")?;
    ensure!(seen.facts.contains("< HTTP/1.1 100 Continue"), "nobody said `100 Continue`:\n{}", seen.facts);
    ensure!(seen.content == scene.content()?, "what came back is something else");
    Ok("100, then 200 and the content".to_owned())
}

fn receive_chunked(scene: &Scene<'_>) -> anyhow::Result<String> {
    let octets = scene.either(10_000_000, 1_000_000_000);
    let seen = curl(scene, &[], &format!("/download?bytes={octets}&chunked=1"))?;
    expect("facts", &seen.facts, &format!("200 1 {octets}\n"))?;
    Ok(format!("200, {octets} octets"))
}

/// A client that does not know chunks gets none (RFC 9112 §6.1).
fn receive_without_chunks(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &["--http1.0", "--include"], "/download?bytes=100000&chunked=1")?;
    let end = seen.content.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_default();
    let (head, content) = seen.content.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_lowercase();
    ensure!(head.starts_with("http/1.1 200 "), "an odd status line: {head:?}");
    ensure!(!head.contains("transfer-encoding"), "chunks for HTTP/1.0: {head:?}");
    expect("octets", &content.len(), &100_000)?;
    Ok("200, all octets, no chunks".to_owned())
}

fn reuse(scene: &Scene<'_>) -> anyhow::Result<String> {
    let url = format!("{}/plaintext", scene.url);
    // curl has one `--output` for each address.
    let more = [url.as_str(), "--output", "second", url.as_str(), "--output", "third"];
    let seen = curl(scene, &more, "/plaintext")?;
    expect("facts", &seen.facts.as_str(), &"200 1 13\n200 0 13\n200 0 13\n")?;
    Ok("one connection".to_owned())
}

fn not_found(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &[], "/no/such/path")?;
    ensure!(seen.facts.starts_with("404 1 "), "facts: {:?}", seen.facts);
    Ok("404".to_owned())
}

fn events(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &["--no-buffer"], "/events?count=3&every=10")?;
    let text = String::from_utf8_lossy(&seen.content);
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
    expect("events", &data, &vec!["1", "2", "3"])?;
    Ok("three events".to_owned())
}

fn file(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &[], "/files/content")?;
    ensure!(seen.facts.starts_with("200 1 "), "facts: {:?}", seen.facts);
    ensure!(seen.content == scene.content()?, "the file is another");
    Ok("200, the file".to_owned())
}

fn range(scene: &Scene<'_>) -> anyhow::Result<String> {
    let seen = curl(scene, &["--range", "100000-100999"], "/files/content")?;
    expect("facts", &seen.facts.as_str(), &"206 1 1000\n")?;
    ensure!(seen.content == scene.content()?[100_000..101_000], "other octets");
    Ok("206, the octets asked for".to_owned())
}
