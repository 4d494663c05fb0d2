//! The part of a `Cargo.toml` that the rules check.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A `Cargo.toml`.
#[derive(Deserialize)]
pub(super) struct Manifest {
    pub(super) package: Option<Package>,
    /// Present in the root of a workspace, which may have no other member.
    pub(super) workspace: Option<toml::Table>,
    pub(super) lints: Option<toml::Table>,
    #[serde(default)]
    pub(super) bin: Vec<Binary>,
    #[serde(flatten)]
    pub(super) dependencies: Dependencies,
    #[serde(default)]
    target: BTreeMap<String, Dependencies>,
}

#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) description: Option<String>,
}

/// A `[[bin]]`.
#[derive(Deserialize)]
pub(super) struct Binary {
    pub(super) path: Option<String>,
}

/// The tables of dependencies, for all platforms or one.
#[derive(Deserialize)]
pub(super) struct Dependencies {
    #[serde(default, rename = "dependencies")]
    always: toml::Table,
    #[serde(default, rename = "dev-dependencies")]
    for_tests: toml::Table,
    #[serde(default, rename = "build-dependencies")]
    to_build: toml::Table,
}

impl Manifest {
    /// Returns the dependencies of the package and of its build, on any platform.
    pub(super) fn needs(&self) -> impl Iterator<Item = &String> {
        self.tables().flat_map(|tables| tables.always.keys().chain(tables.to_build.keys()))
    }

    /// Returns the further dependencies of its tests, benches and examples.
    pub(super) fn needs_for_tests(&self) -> impl Iterator<Item = &String> {
        self.tables().flat_map(|tables| tables.for_tests.keys())
    }

    fn tables(&self) -> impl Iterator<Item = &Dependencies> {
        std::iter::once(&self.dependencies).chain(self.target.values())
    }
}
