//! Reads a config from a file, at the start and at each reload.

use std::path::{Path, PathBuf};

use super::failure::Source;
use super::include::read_included;
use super::own_listeners::refuse_loops;
use super::{Config, Failure, parse, secrets, whole_file};

/// The config file of a daemon, and settings that override the file.
#[derive(Clone, Default, Debug)]
pub struct ConfigSource {
    file: Option<PathBuf>,
    listen: Vec<String>,
    workers: Option<usize>,
}

impl ConfigSource {
    /// Reads the config file at `path` and the files that it includes, at the start and at each reload.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self { file: Some(path.as_ref().to_owned()), ..Self::default() }
    }

    /// Serves the demo on `127.0.0.1:8080`, without a config file.
    pub fn demo() -> Self {
        Self::default()
    }

    /// Replaces the addresses of the listeners by `addresses`: `IP:PORT` or `unix:PATH`. If the config has
    /// a single listener, its settings apply to each address.
    pub fn listen_at(self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { listen: addresses.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the number of worker threads. Default: the number in the config.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Returns `true` if the source has a config file, which a reload can read again.
    pub(crate) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the config.
    ///
    /// # Errors
    /// Returns an error if the file is missing, unreadable or invalid, or if the addresses of
    /// [`listen_at`](Self::listen_at) cannot replace the addresses in the config.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let mut config = self.file.as_deref().map_or_else(|| Ok(Config::demo()), Config::read)?;
        if !self.listen.is_empty() {
            config.listen_at(&self.listen)?;
        }
        refuse_loops(&config)?;
        config.workers = self.workers.or(config.workers);
        Ok(config)
    }
}

impl Config {
    /// Reads and checks the config file at `path`, and the files that it includes.
    ///
    /// # Errors
    /// Returns an error if the file is missing, unreadable or invalid.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        let config = Self::read(path)?;
        refuse_loops(&config)?;
        Ok(config)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::about_file(path, format!("cannot read `{}`: {error}", path.display()))
                .with_hint("the argument of `serve` and `check` is the path of a config in TOML")
        })?;
        let mut source = Source::new(path.to_owned(), text, secrets::hidden);
        read_included(&mut source)?;
        let parse::Parsed { raw, unknown } = parse::parse(&source)?;
        whole_file::resolve(raw, unknown, source)
    }
}
