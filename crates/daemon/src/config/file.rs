//! Reads a config from a file.

use std::path::Path;

use super::failure::Source;
use super::own_listeners::refuse_loops;
use super::{Config, Failure, raw, resolve};

impl Config {
    /// Reads the config file at `path` and checks it as a whole.
    ///
    /// # Errors
    /// The file is missing, unreadable or invalid.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        let config = Self::read(path)?;
        refuse_loops(&config)?;
        Ok(config)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::about_file(path, format!("`{}` cannot be read: {error}", path.display()))
                .with_hint("the argument of `serve` and `check` is the path of a config in TOML")
        })?;
        let source = Source::new(path.to_owned(), text);
        let raw = raw::parse(&source)?;
        resolve::resolve(raw, source)
    }
}
