//! `cargo xtask interop --tls`: what others think of TLS as `thruway serve` speaks it.
//!
//! Each judge looks at a server with a certificate of one kind. What it finds and is not in `expected_findings.toml` fails, and so
//! does what is listed there and not found any more.

// what is judged
mod certificates;
mod served;

// what is found, and what was expected
mod findings;

// the judges
mod testssl;
mod sslyze;
mod tlsfuzzer;

// what a load shows
mod soak;

use std::fs;
use std::path::Path;

use super::check::{self, Row};
use crate::places::find_on_path;
use crate::stop::Stop;
use served::{SERVERS, Served};

pub(super) use certificates::{Authority, Key};

/// What all of it needs.
pub(super) struct Setting<'s> {
    /// The program `thruway`.
    pub(super) program: &'s Path,
    pub(super) directory: &'s Path,
    pub(super) is_full: bool,
    /// A checkout of `tlsfuzzer`, if there is one.
    pub(super) tlsfuzzer: Option<&'s Path>,
    pub(super) stop: &'s Stop,
}

/// A server before a judge.
struct Case<'s> {
    setting: &'s Setting<'s>,
    /// What its certificate is.
    kind: &'static str,
    /// Where the server's files are; judges leave theirs there.
    directory: &'s Path,
    authority: &'s Authority<'s>,
    port: u16,
}

/// Runs every judge that there is.
///
/// # Errors
/// Only when a server did not start, or it is time to end.
pub(super) fn run(setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    if find_on_path("openssl").is_none() {
        return Ok(vec![Row::not_installed("openssl", "certificates to be judged with")]);
    }
    let authority = Authority::new(setting.directory, setting.stop)?;
    let mut rows = Vec::new();
    for kind in SERVERS {
        rows.extend(judge(kind, &authority, setting)?);
    }
    Ok(rows)
}

fn judge(kind: &Served, authority: &Authority<'_>, setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    let directory = setting.directory.join(kind.name);
    fs::create_dir_all(&directory)?;
    let (server, port) = kind.start(authority, &directory, setting)?;
    let case = Case { setting, kind: kind.name, directory: &directory, authority, port };
    let mut rows = Vec::new();
    for judge in kind.judges {
        rows.extend(judge(&case));
        setting.stop.check()?;
    }
    rows.push(check::row("thruway", &format!("{}, judged", kind.name), || server.end(setting.stop)));
    Ok(rows)
}

impl Case<'_> {
    /// The row of a judge that is `program`, if that is there.
    fn row(&self, program: &'static str, what: &str, run: impl FnOnce() -> anyhow::Result<String>) -> Row {
        let what = format!("{}: {what}", self.kind);
        eprintln!("{program}: {what}");
        check::row(program, &what, run)
    }
}

/// The name that certificates are for.
const HOST: &str = "www.example";
