//! Reads the lists of cases in TOML files.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

/// Returns the entries of all arrays of tables in a TOML file.
pub(super) fn read<T: DeserializeOwned>(file: &str) -> anyhow::Result<Vec<T>> {
    let arrays: BTreeMap<String, Vec<T>> = toml::from_str(file)?;
    Ok(arrays.into_values().flatten().collect())
}
