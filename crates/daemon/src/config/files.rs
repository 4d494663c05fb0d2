//! The key `files` of routes, for directories of files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::Files;

use crate::config::FilesConfig;
use crate::config::answer::resolve_field_line;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// A directory of files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawFiles {
    /// Directory of the files. A relative path starts at the directory of the config.
    pub(in crate::config) root: Spanned<PathBuf>,
    /// Name of the file that Thruway sends for requests to a directory. Default: `index.html`.
    pub(in crate::config) index: Option<Spanned<String>>,
    /// With `true`, Thruway sends the file `NAME.br`, `NAME.zst` or `NAME.gz` instead of `NAME` if it exists
    /// and the client accepts this compression. Default: true.
    pub(in crate::config) precompressed: Option<bool>,
    /// `true` serves files and directories with names that begin with a dot. Risk: `.git`, `.env` and similar
    /// files become public. Default: false.
    #[serde(default)]
    pub(in crate::config) hidden_files: bool,
    /// Value of the response header `Cache-Control`. Default: none.
    pub(in crate::config) cache_control: Option<Spanned<String>>,
    /// Files to try, in this order. `{path}` is the path of the request below `root`, also if it is a
    /// directory with an index file. `{path}.html` is this path with a suffix. `/index.html` is this file for
    /// all requests. If no file exists, the client gets 404. Default: `["{path}"]`.
    pub(in crate::config) try_files: Option<Spanned<Vec<Spanned<String>>>>,
    /// `true` sends an HTML page with the names of the files if a directory has no index file. Risk: clients
    /// see the names of all files that are not hidden. Default: false.
    #[serde(default)]
    pub(in crate::config) listing: bool,
    /// Media types by file extension: `{ md = "text/markdown; charset=utf-8" }`. They take precedence over
    /// the types that Thruway knows. Default: none.
    #[serde(default)]
    pub(in crate::config) types: BTreeMap<Spanned<String>, Spanned<String>>,
}

pub(in crate::config) fn resolve_files(resolver: &mut Resolver<'_>, raw: RawFiles) -> FilesConfig {
    if let Some(value) = &raw.cache_control {
        resolve_field_line(resolver, "Cache-Control", value);
    }
    if let Some(index) = &raw.index {
        let mut components = Path::new(index.get_ref()).components();
        if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
            resolver.refuse(index, "`index` is a file name, without a path");
        }
    }
    let try_files = resolve_try_files(resolver, raw.try_files, raw.hidden_files);
    for (extension, value) in &raw.types {
        let is_extension = !extension.get_ref().is_empty() && !extension.get_ref().contains(['.', '/']);
        if !is_extension {
            let message = "this is not a file extension";
            resolver.refuse_with(extension, message, "write the part after the last dot, such as `md`");
        }
        resolve_field_line(resolver, "Content-Type", value);
    }
    FilesConfig {
        root: resolver.relative_to_config(raw.root.get_ref()),
        root_span: raw.root.span(),
        index: raw.index.map(Spanned::into_inner),
        precompressed: raw.precompressed.unwrap_or(true),
        hidden_files: raw.hidden_files,
        cache_control: raw.cache_control.map(Spanned::into_inner),
        try_files,
        listing: raw.listing,
        types: raw.types.into_iter().map(|(name, value)| (name.into_inner(), value.into_inner())).collect(),
    }
}

fn resolve_try_files(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
    hidden_files: bool,
) -> Vec<String> {
    let Some(raw) = raw else { return Vec::new() };
    resolver.refuse_empty(&raw, "`try_files` is empty", "write `try_files = [\"{path}\", \"/index.html\"]`");
    for file in raw.get_ref() {
        if let Err(error) = Files::check_candidate(file.get_ref(), hidden_files) {
            let hint = match file.get_ref().split_once("$uri") {
                Some((_, rest)) => format!("write `{{path}}{rest}` in place of `$uri{rest}` of nginx"),
                None => "write `{path}`, `{path}.html` or `/index.html`".to_owned(),
            };
            resolver.refuse_with(file, error, &hint);
        }
    }
    raw.into_inner().into_iter().map(Spanned::into_inner).collect()
}
