//! The page of the inspector: one HTML document with its style sheet and its script.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use thruway_server::Response;

static PAGE: LazyLock<String> =
    LazyLock::new(|| HTML.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT));
static POLICY: LazyLock<String> = LazyLock::new(policy);

/// Responds with the page. The page contains no secret, so it needs no token.
pub(super) fn answer() -> Response {
    Response::html(PAGE.as_str())
        .with_field("Content-Security-Policy", POLICY.as_str())
        .with_field("Referrer-Policy", "no-referrer")
        .with_field("Cross-Origin-Opener-Policy", "same-origin")
}

/// Returns a policy that allows only this style sheet, this script, and requests to this server (Content
/// Security Policy Level 3).
fn policy() -> String {
    let [style, script] = [STYLE, SCRIPT].map(|text| STANDARD.encode(Sha256::digest(text.as_bytes())));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'"
    )
}

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_exactly_the_style_and_the_script_of_the_page() {
        for (element, text) in [("style", STYLE), ("script", SCRIPT)] {
            let hash = STANDARD.encode(Sha256::digest(text.as_bytes()));
            assert!(POLICY.contains(&format!("{element}-src 'sha256-{hash}';")), "{element}");
            assert!(PAGE.contains(&format!("<{element}>{text}</{element}>")), "{element}");
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "{element}");
        }
        assert!(POLICY.starts_with("default-src 'none';") && !POLICY.contains("unsafe"));
    }

    /// The policy would block such parts of the page. The script shows texts of servers, so it must never
    /// parse them as HTML.
    #[test]
    fn page_has_no_inline_code_and_creates_no_html_from_text() {
        for forbidden in [
            " style=",
            " onclick=",
            "javascript:",
            "src=",
            "href=",
            "url(",
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
            ".href =",
            ".src =",
        ] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
    }
}
