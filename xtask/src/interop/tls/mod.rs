//! `cargo xtask interop --tls`: what others think of TLS as `thruway serve` speaks it.
//!
//! Each judge looks at a server with a certificate of one kind. What it finds and is not in
//! `expected_findings.toml` fails, and so does what is listed there and not found any more.

// what is judged
mod certificates;
mod case;
mod served;

// the judges
mod testssl;
mod sslyze;
mod tlsfuzzer;

// what a load shows
mod soak;

use std::fs;
use std::path::Path;

use super::check::{self, Row, Setting};
use crate::program::find_on_path;
use case::Case;
use served::{SERVERS, Served};

pub(super) use certificates::{Authority, Key};

/// Runs every judge that there is.
///
/// # Errors
/// Only when a server did not start, or it is time to end.
pub(super) fn run(setting: &Setting<'_>, tlsfuzzer: Option<&Path>) -> anyhow::Result<Vec<Row>> {
    if find_on_path("openssl").is_none() {
        return Ok(vec![Row::not_installed("openssl", "certificates to be judged with")]);
    }
    let authority = Authority::new(setting.directory, setting.stop)?;
    let mut rows = Vec::new();
    for kind in SERVERS {
        rows.extend(judge(kind, &authority, setting, tlsfuzzer)?);
    }
    Ok(rows)
}

fn judge(
    kind: &Served,
    authority: &Authority<'_>,
    setting: &Setting<'_>,
    tlsfuzzer: Option<&Path>,
) -> anyhow::Result<Vec<Row>> {
    let directory = setting.directory.join(kind.name);
    fs::create_dir_all(&directory)?;
    let (server, port) = kind.start(authority, &directory, setting)?;
    let case = Case { setting, tlsfuzzer, kind: kind.name, directory: &directory, authority, port };
    let mut rows = Vec::new();
    for judge in kind.judges {
        rows.extend(judge(&case));
        setting.stop.check()?;
    }
    rows.push(check::row("thruway", &format!("{}, judged", kind.name), || server.end(setting.stop)));
    Ok(rows)
}
