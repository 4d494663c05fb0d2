//! What the rules look at in a `Cargo.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A `Cargo.toml`.
#[derive(Deserialize)]
pub(super) struct Manifest {
    pub(super) package: Option<Package>,
    /// Whether it is the root of a workspace, which may have no other member.
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
    /// What the package needs, to run or to be built, on any platform.
    pub(super) fn needs(&self) -> impl Iterator<Item = &String> {
        self.tables().flat_map(|tables| tables.always.keys().chain(tables.to_build.keys()))
    }

    /// What its tests, benches and examples need besides.
    pub(super) fn needs_for_tests(&self) -> impl Iterator<Item = &String> {
        self.tables().flat_map(|tables| tables.for_tests.keys())
    }

    fn tables(&self) -> impl Iterator<Item = &Dependencies> {
        std::iter::once(&self.dependencies).chain(self.target.values())
    }
}
