//! The planned change of a config file.

use std::path::Path;

use serde_json::json;

use super::application::{Application, Scope};
use super::config_file::{ConfigFile, Written};
use super::entry::{ConfigChange, Places};
use super::json_edit;
use crate::message::CommandError;

/// The planned change of a config file.
#[derive(Debug)]
pub struct Plan {
    file: ConfigFile,
    /// The changed entry as text for people.
    entry: Option<String>,
    change: Option<String>,
    section: &'static str,
    name: String,
}

impl Plan {
    /// Reads the config file of an application, and computes its new text. Changes nothing.
    ///
    /// # Errors
    /// The application has no such scope, the file cannot be read, or the file is not JSON with the expected
    /// structure.
    pub fn new(
        application: Application,
        scope: Scope,
        places: &Places,
        change: &ConfigChange,
    ) -> Result<Self, CommandError> {
        let path = application.config_path(scope, places)?;
        let section = application.section();
        let file = ConfigFile::read(path)?;
        let (name, entry) = match change {
            ConfigChange::Set(entry) => (&entry.name, Some(application.value(entry, places)?)),
            ConfigChange::Remove(name) => (name, None),
        };
        check_name(name)?;
        let edited = match &entry {
            Some(entry) => json_edit::set(file.text(), section, name, entry),
            None => json_edit::remove(file.text(), section, name),
        };
        let entry = entry.map(|entry| format!("{}: {}", json!(name), json_edit::pretty(&entry, "", "  ")));
        let change = edited.map_err(|error| edit_failed(&file, section, entry.as_deref(), error))?;
        Ok(Self { file, entry, change, section, name: name.clone() })
    }

    /// Returns the path of the config file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns `true` if the file must change.
    pub const fn has_change(&self) -> bool {
        self.change.is_some()
    }

    /// Describes the change for people.
    pub fn describe(&self) -> String {
        let (path, section, name) = (self.path().display(), self.section, json!(self.name));
        match (&self.change, &self.entry) {
            (None, Some(_)) => format!("`{path}` already contains this entry\n"),
            (None, None) => format!("`{path}` has no entry {name} in `{section}`\n"),
            (Some(_), Some(entry)) => format!("{path}, in `{section}`:\n{entry}\n"),
            (Some(_), None) => format!("{path}, in `{section}`: remove {name}\n"),
        }
    }

    /// Writes the file. Before, copies the existing file to a backup. The file is always complete: a reader
    /// gets either the old or the new text.
    ///
    /// # Errors
    /// The file or the backup cannot be written, or another program has changed the file since
    /// [`new`](Self::new).
    pub fn apply(self) -> Result<Written, CommandError> {
        match &self.change {
            Some(text) => self.file.write(text),
            None => Ok(Written { backup: None }),
        }
    }
}

/// Checks the name of a server. Applications show the name, and build names of tools from it.
fn check_name(name: &str) -> Result<(), CommandError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(CommandError::new(format!("`{}` is not a server name", name.escape_debug()))
        .with_hint("a server name has 1 to 64 letters, digits, `-`, `_` and `.`"))
}

fn edit_failed(
    file: &ConfigFile,
    section: &str,
    entry: Option<&str>,
    error: json_edit::EditError,
) -> CommandError {
    let path = file.path().display();
    let reason = match error {
        json_edit::EditError::NotJson(reason) => format!("`{path}` is not JSON: {reason}"),
        json_edit::EditError::NotAnObject(name) if name.is_empty() => {
            format!("`{path}` does not contain a JSON object")
        }
        json_edit::EditError::NotAnObject(name) => format!("`{name}` in `{path}` is not a JSON object"),
        json_edit::EditError::RepeatedName(name) => {
            format!("`{path}` contains `{}` more than once", name.escape_debug())
        }
        json_edit::EditError::CommentInTheWay => {
            format!("`{path}` has a comment at the entry, which the change would remove")
        }
    };
    CommandError::new(reason).with_hint(match entry {
        Some(entry) => {
            format!("the file is unchanged; correct it, or write this entry into `{section}`:\n{entry}")
        }
        None => format!("the file is unchanged; remove the entry from `{section}` with an editor"),
    })
}

/// Maximum length of the name of a server.
const NAME_BYTES_MAX: usize = 64;
