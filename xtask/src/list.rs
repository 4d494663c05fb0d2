//! Lists of cases, in TOML files beside the code.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

/// Reads a file with an array of tables.
pub(super) fn read<T: DeserializeOwned>(file: &str) -> anyhow::Result<Vec<T>> {
    let arrays: BTreeMap<String, Vec<T>> = toml::from_str(file)?;
    Ok(arrays.into_values().flatten().collect())
}
