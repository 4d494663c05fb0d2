//! Generates the reference of the JSON and CSV output, `docs/guide/load-test-reports.md`, from the JSON Schemas
//! of the reports.

use std::fmt::Write as _;

use serde_json::Value;

use super::contents::Report;
use super::forms::CSV_COLUMNS;
use crate::compare::Comparison;
use crate::ramp::Ramp;

/// Returns the text of `docs/guide/load-test-reports.md`. A test compares that file with this text.
pub fn reference() -> String {
    let mut text = BEGIN.to_owned();
    for (heading, schema) in
        [(LOAD, Report::schema()), (COMPARISON, Comparison::schema()), (RAMP, Ramp::schema())]
    {
        text.push_str(heading);
        text.push_str(TABLE);
        for member in members(schema.as_value()) {
            let Member { path, kind, description } = member;
            let _ = writeln!(text, "| `{path}` | {kind} | {description} |");
        }
    }
    text.push_str(TIMES);
    text.push_str(TABLE);
    let times = schemars::schema_for!(super::times::TimesReport);
    for Member { path, kind, description } in members(times.as_value()) {
        let _ = writeln!(text, "| `{path}` | {kind} | {description} |");
    }
    text.push_str(CSV);
    for (name, meaning) in CSV_COLUMNS {
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    text.push_str(CSV_OF_RAMP);
    text
}

/// A member of a JSON report.
struct Member {
    /// Names of the member and of its parents, such as `requests.answered` or `stages[].number`.
    path: String,
    /// JSON type.
    kind: String,
    description: String,
}

/// Returns the members of the objects that `schema` describes, parents before their members.
fn members(schema: &Value) -> Vec<Member> {
    let mut found = Vec::new();
    collect(schema, schema, "", &mut found);
    found
}

/// Appends the members of the object type `object`. `parent` is the path of the object.
fn collect(root: &Value, object: &Value, parent: &str, found: &mut Vec<Member>) {
    let properties = object["properties"].as_object().into_iter().flatten();
    let required = object["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let mut properties: Vec<_> = properties.collect();
    // Optional members stay behind the required members.
    properties.sort_by_key(|(name, _)| !is_required(name));
    for (name, property) in properties {
        let description = property["description"].as_str().unwrap_or_default();
        let path = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        let (kind, items, name_of_type) = described(root, property);
        let path = if kind == "array" { format!("{path}[]") } else { path };
        let kind = if name_of_type == Some("TimesReport") { "[times](#times)".to_owned() } else { kind };
        found.push(Member { path: path.clone(), kind, description: one_line(description) });
        if let Some(items) = items.filter(|_| name_of_type != Some("TimesReport")) {
            collect(root, items, &path, found);
        }
    }
}

/// Returns the JSON type of a property, the object type of the property or of its items, and the name of this
/// type.
fn described<'a>(root: &'a Value, property: &'a Value) -> (String, Option<&'a Value>, Option<&'a str>) {
    let chosen = |key: &str| property[key].as_array().and_then(|options| options.first());
    let property = chosen("anyOf").or_else(|| chosen("allOf")).unwrap_or(property);
    if let Some(name) = property["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let object = &root["$defs"][name];
        let is_object = object["properties"].is_object();
        let kind = if is_object { "object" } else { "string" };
        return (kind.to_owned(), is_object.then_some(object), Some(name));
    }
    let kinds = &property["type"];
    let kind = kinds.as_str().or_else(|| kinds[0].as_str()).unwrap_or("string");
    if kind == "array" {
        let (_, object, name) = described(root, &property["items"]);
        return (kind.to_owned(), object, name);
    }
    (kind.to_owned(), None, None)
}

fn one_line(description: &str) -> String {
    description.replace('\n', " ").replace('|', "\\|")
}

const BEGIN: &str = r"# Reports of load tests

This page describes the output of `thruway bench` with `--output json` and `--output csv`. [Load
testing](load-testing.md) describes the commands. The code generates this page: `cargo run -p thruway-bench --example
reports > docs/guide/load-test-reports.md`.

- The member `format` contains the version of the format. Later versions of Thruway may add members to a format. If the
  name, the meaning or the unit of a member changes, the version changes.
- Names end with their unit: `_us` (microseconds), `_seconds`, `_per_second`, `_bytes`. A `_share` is a number from 0
  to 1. Names without a unit are counts.
- Times have five significant digits. Rates have at most three decimal places.
- An absent value is `null` in JSON, and empty in CSV.
- `thruway bench COMMAND --schema` prints the JSON Schema.

";

const LOAD: &str = "## `thruway-bench/3`\nThe output of `bench http`, `bench scenario` and `bench mcp`.\n\n";
const COMPARISON: &str = "\n## `thruway-bench-compare/3`\nThe output of `bench compare`.\n\n";
const RAMP: &str = "\n## `thruway-bench-ramp/3`\nThe output of `bench ramp`.\n\n";
const TIMES: &str = "\n## Times\nThe members of each member with the type *times*.\n\n";
const TABLE: &str = "| member | type | meaning |\n|---|---|---|\n";

const CSV: &str = "\n## CSV
`bench http`, `bench scenario`, `bench mcp` and `bench compare` write one line for each load, and one line for each
stage, each step and each URL of a load.

| column | meaning |
|---|---|
";

const CSV_OF_RAMP: &str =
    "\n`bench ramp` writes one line for each rate. Its columns have the names of the members of `steps[]`.\n";
