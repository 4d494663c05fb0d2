//! The key `error_pages` of routes and listeners: pages for error responses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{ErrorPage, ErrorPages, StatusRange};
use thruway_server::content_type_of_path;

use super::resolver::Resolver;
use super::values::Spanned;

/// Pages for error responses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawErrorPages {
    /// Files by status: `{ 404 = "404.html", "500-599" = "5xx.html" }`. A single status takes precedence over
    /// a range. A relative path starts at the directory of the config. Thruway reads the files when it starts
    /// and at each reload. A file has at most 1 MiB. Its extension determines `Content-Type`.
    pages: BTreeMap<Spanned<String>, Spanned<PathBuf>>,
    /// With `true`, the pages also replace the error responses of upstream servers. Default: false.
    #[serde(default)]
    intercept: bool,
}

pub(super) fn resolve_error_pages(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawErrorPages>,
) -> Arc<ErrorPages> {
    if raw.get_ref().pages.is_empty() {
        resolver.refuse_with(&raw, "`error_pages` has no page", "write `pages = { 404 = \"404.html\" }`");
    }
    let RawErrorPages { pages, intercept } = raw.into_inner();
    let mut pages: Vec<_> =
        pages.iter().filter_map(|(statuses, file)| resolve_page(resolver, statuses, file)).collect();
    pages.sort_by_key(|page| page.statuses.count());
    Arc::new(ErrorPages { pages, intercepts_upstream: intercept })
}

fn resolve_page(
    resolver: &mut Resolver<'_>,
    statuses: &Spanned<String>,
    file: &Spanned<PathBuf>,
) -> Option<ErrorPage> {
    let range = match statuses.get_ref().parse::<StatusRange>() {
        Ok(range) if range.is_within(StatusRange::new(400, 599)) => Some(range),
        _ => {
            let message = "error pages are for statuses from 400 to 599";
            resolver.refuse_with(
                statuses,
                message,
                "write `404 = \"404.html\"` or `\"500-599\" = \"5xx.html\"`",
            );
            None
        }
    };
    let path = resolver.relative_to_config(file.get_ref());
    match read(&path) {
        Ok(content) => Some(ErrorPage {
            statuses: range?,
            content_type: content_type_of_path(path.as_os_str().as_bytes()).into_owned(),
            content: content.into(),
        }),
        Err(error) => {
            resolver.refuse(file, format!("cannot read `{}`: {error}", path.display()));
            None
        }
    }
}

/// Reads a page.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    // Checks the type first, because the open of a named pipe would wait for a writer.
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(PAGE_BYTES_MAX + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > PAGE_BYTES_MAX {
        return Err("the file has more than 1 MiB".to_owned());
    }
    Ok(content)
}

/// Maximum size of a page. Each page stays in memory.
const PAGE_BYTES_MAX: u64 = 1 << 20;
