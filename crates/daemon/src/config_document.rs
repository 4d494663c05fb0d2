//! The running config as a document for operators, without secrets.

use std::path::{Path, PathBuf};

use serde::Serialize;
use thruway_message::mask_userinfo;

use crate::config::own_listeners::possible_loops;
use crate::config::usage::unused;
use crate::config::{Config, Failure, Finding};
use crate::tls;

/// The running config and the findings about it. It contains no secrets.
#[derive(Serialize, Default, Debug)]
pub(crate) struct ConfigDocument {
    /// The config file. Absent if the embedding program built the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// The text of the file, with stars in place of secrets. Variables of the environment are not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The included files. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    included: Vec<IncludedJson>,
    /// The settings in effect, as `thruway check` prints them.
    effective: String,
    /// The findings of `thruway check --offline`.
    findings: Vec<FindingJson>,
}

/// An included file.
#[derive(Serialize, Debug)]
struct IncludedJson {
    file: PathBuf,
    /// The text of the file, with stars in place of secrets.
    text: String,
}

/// An error or warning about the config.
#[derive(Serialize, Debug)]
struct FindingJson {
    severity: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

impl ConfigDocument {
    /// Returns the document of `config`. Looks up no names.
    pub(crate) fn of(config: &Config) -> Self {
        let failures = unused(config).into_iter().chain(possible_loops(config, &[]));
        let failures: Vec<_> = failures.chain(tls::check(config).err()).collect();
        let findings = failures.iter().flat_map(Failure::findings).map(FindingJson::from);
        let mut files = config.shown_files().into_iter();
        let (file, text) = files.next().unzip();
        let included =
            files.map(|(file, text)| IncludedJson { file: file.to_owned(), text: text.to_owned() });
        Self {
            file: file.map(Path::to_owned),
            text: text.map(str::to_owned),
            included: included.collect(),
            effective: mask_userinfo(&config.to_string()).into_owned(),
            findings: findings.collect(),
        }
    }
}

impl From<&Finding> for FindingJson {
    fn from(finding: &Finding) -> Self {
        let hints = finding.hints().iter().map(|hint| mask_userinfo(hint).into_owned()).collect();
        Self {
            severity: finding.severity().to_string(),
            message: finding.message(),
            file: finding.file().map(Path::to_owned),
            line: finding.line(),
            hints,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_shows_the_file_and_the_findings_but_no_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("thruway.toml");
        let text = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nrespond.status = 200\n\
                    [upstreams.unused]\nservers = [\"127.0.0.1:9\"]\n[policies.auth.basic_auth]\nusers = { admin = \"$$2y$$10$$dGGXUJOVnuL1Np/cZJw9oebHuWep.Mm6TgDleeEAoOIaeqzUw/d7u\" }\n";
        std::fs::write(&path, text).unwrap();
        let config = Config::from_file(&path).unwrap_or_else(|failure| panic!("{failure}"));
        let document = ConfigDocument::of(&config);
        assert_eq!(document.file.as_deref(), Some(&*path));
        assert!(document.effective.contains("listens on 127.0.0.1:0"), "{}", document.effective);
        assert!(document.findings.iter().any(|finding| finding.message.contains("`unused`")));
        let json = serde_json::to_string(&document).unwrap();
        assert!(json.contains("[upstreams.unused]") && !json.contains("dGGXUJ"), "{json}");
    }
}
