//! Serves `/`: the dashboard, one HTML page with its styles and scripts.
//!
//! The Content-Security-Policy of the page allows only this style sheet and this script, by their hashes, and
//! requests to the admin listener itself.

use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use thruway_server::{Request, Response};

/// The page as the listener sends it.
struct Page {
    html: String,
    /// The page, compressed with gzip.
    gzip: Vec<u8>,
    content_security_policy: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(Page::new);

/// Responds with the page.
pub(super) fn answer(request: &Request<'_>) -> Response {
    let page = &*PAGE;
    let accepts_gzip = request.field("accept-encoding").is_some_and(|field| accepts_gzip(field.as_bytes()));
    let response = if accepts_gzip {
        Response::html(page.gzip.as_slice()).with_field("Content-Encoding", "gzip")
    } else {
        Response::html(page.html.as_str())
    };
    response
        .with_field("Content-Security-Policy", &page.content_security_policy)
        .with_field("Cache-Control", "no-cache")
        .with_field("Vary", "Accept-Encoding")
        .with_field("Referrer-Policy", "no-referrer")
        .with_field("Cross-Origin-Opener-Policy", "same-origin")
}

/// Returns `true` if `Accept-Encoding` names gzip without the weight 0 (RFC 9110 §12.5.3).
fn accepts_gzip(value: &[u8]) -> bool {
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next() == Some("gzip");
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|weight| weight.parse().ok());
        is_gzip && weight.unwrap_or(1.0_f32) > 0.0
    })
}

impl Page {
    fn new() -> Self {
        let html = HTML.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to a vector cannot fail.
        let _ = gzip.write_all(html.as_bytes());
        let gzip = gzip.finish().unwrap_or_default();
        let content_security_policy = content_security_policy(STYLE, SCRIPT);
        Self { html, gzip, content_security_policy }
    }
}

/// Returns a policy that allows only this style sheet and this script (Content Security Policy Level 3).
/// `require-trusted-types-for` forbids that the script creates HTML from text.
fn content_security_policy(style: &str, script: &str) -> String {
    let [style, script] = [style, script].map(|text| STANDARD.encode(Sha256::digest(text.as_bytes())));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("page/format.js"),
    include_str!("page/dom.js"),
    include_str!("page/charts.js"),
    include_str!("page/views.js"),
    include_str!("page/fleet.js"),
    include_str!("page/main.js"),
    "})();\n",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_needs_at_most_sixty_kib_compressed() {
        let page = Page::new();
        println!("{} bytes, {} bytes compressed", page.html.len(), page.gzip.len());
        assert!(page.gzip.len() <= 60 << 10, "{}", page.gzip.len());
    }

    #[test]
    fn policy_allows_exactly_the_style_and_the_script_of_the_page() {
        let page = Page::new();
        for (element, text) in [("style", STYLE), ("script", SCRIPT)] {
            let hash = STANDARD.encode(Sha256::digest(text.as_bytes()));
            let directive = format!("{element}-src 'sha256-{hash}';");
            assert!(page.content_security_policy.contains(&directive), "{element}");
            assert!(page.html.contains(&format!("<{element}>{text}</{element}>")), "{element}");
            assert_eq!(page.html.matches(&format!("<{element}")).count(), 1, "{element}");
        }
        assert!(!page.content_security_policy.contains("unsafe"));
        assert!(page.content_security_policy.starts_with("default-src 'none';"));
    }

    /// The Content-Security-Policy would block such parts of the page, and the browser would show errors.
    #[test]
    fn page_has_no_inline_styles_handlers_or_links_to_other_hosts() {
        let html = &Page::new().html;
        for forbidden in
            [" style=", " onclick=", " onload=", "javascript:", "src=\"http", "href=\"http", "url("]
        {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
    }

    /// The script shows names and messages of other parties, so it must never parse them as HTML.
    #[test]
    fn script_creates_no_html_from_text() {
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setHTML",
            "DOMParser",
            "createContextualFragment",
            "srcdoc",
            "setTimeout(\"",
            ".href =",
            ".src =",
        ] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        assert!(accepts_gzip(b"br, GZIP;q=0.5") && accepts_gzip(b"gzip"));
        assert!(!accepts_gzip(b"gzip;q=0") && !accepts_gzip(b"identity") && !accepts_gzip(b""));
    }
}
