//! The JSON Schema of a config, made of the types it is read as.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;

use super::raw::Raw;

/// Returns the JSON Schema of a config file, for editors.
pub fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(leave_out_null))
        .with_transform(RecursiveTransform(allow_variables));
    let mut schema = settings.into_generator().into_root_schema_for::<Raw>();
    schema.insert("title".to_owned(), "A config of `thruway serve`".into());
    schema
}

/// What is not there is left out: TOML has no null.
fn leave_out_null(schema: &mut Schema) {
    let pair = |key| <&[_; 2]>::try_from(schema.get(key)?.as_array()?.as_slice()).ok();
    if let Some([name, null]) = pair("type")
        && null == "null"
    {
        let name = name.clone();
        schema.insert("type".to_owned(), name);
    } else if let Some([one, null]) = pair("anyOf")
        && null["type"] == "null"
    {
        let one = one.as_object().cloned().unwrap_or_default();
        schema.remove("anyOf");
        schema.ensure_object().extend(one);
    }
}

/// Numbers and truth values may come from the environment: then texts stand there.
fn allow_variables(schema: &mut Schema) {
    let Some(kind) = schema.get("type").and_then(|kind| kind.as_str()).map(str::to_owned) else { return };
    if matches!(kind.as_str(), "boolean" | "integer" | "number") && schema.get("const").is_none() {
        schema.insert("type".to_owned(), vec![kind, "string".to_owned()].into());
        schema.insert("pattern".to_owned(), r"\$\{".into());
    }
}
