//! Generates the configuration reference: all keys of the config file as Markdown, from the JSON Schema.

use serde_json::Value;

use super::schema;

/// Returns the text of `docs/guide/configuration.md`: one section for each table of the config file. A
/// section lists the type, default, effect and security notes of each key.
///
/// The descriptions are the doc comments of the config structs. The last sentence of a description may be
/// `Default: …`. Security notes begin with `Risk` and come before `Default: …`.
pub fn reference() -> String {
    let schema = schema();
    let mut reference = Reference { root: schema.as_value(), tables: Vec::new() };
    let (root, no_path) = (reference.root, TablePath { path: String::new(), is_array: false });
    reference.tables.push(Table { schema: root, places: vec![no_path] });
    reference.collect(root, "");
    let sections: Vec<_> = reference.tables.iter().map(|table| reference.section(table)).collect();
    format!("{INTRODUCTION}{}", sections.concat())
}

struct Reference<'s> {
    root: &'s Value,
    tables: Vec<Table<'s>>,
}

/// A table of the config file, and all paths at which the table may occur.
struct Table<'s> {
    schema: &'s Value,
    places: Vec<TablePath>,
}

#[derive(Clone)]
struct TablePath {
    path: String,
    is_array: bool,
}

impl<'s> Reference<'s> {
    /// Collects the tables below `table`. `path` is the path of `table`.
    fn collect(&mut self, table: &'s Value, path: &str) {
        for (key, schema) in properties(table) {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.collect_from(schema, TablePath { path, is_array: false });
        }
    }

    fn collect_from(&mut self, schema: &'s Value, place: TablePath) {
        if let Some(target) = self.target(schema) {
            if target["properties"].is_null() {
                return self.collect_from(target, place);
            }
            if let Some(known) = self.tables.iter_mut().find(|table| std::ptr::eq(table.schema, target)) {
                return known.places.push(place);
            }
            self.tables.push(Table { schema: target, places: vec![place.clone()] });
            return self.collect(target, &place.path);
        }
        for choice in choices(schema) {
            self.collect_from(choice, place.clone());
        }
        if schema["items"].is_object() {
            self.collect_from(&schema["items"], TablePath { is_array: true, ..place.clone() });
        }
        if schema["additionalProperties"].is_object() {
            let path = format!("{}.NAME", place.path);
            self.collect_from(&schema["additionalProperties"], TablePath { path, is_array: false });
        }
    }

    /// If `schema` has a `$ref`, returns the schema to which it refers.
    fn target(&self, schema: &Value) -> Option<&'s Value> {
        self.root.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
    }

    fn section(&self, table: &Table<'_>) -> String {
        let mut places = table.places.iter().map(TablePath::header);
        let title = places.next().filter(|title| title != "`[]`");
        let mut text = format!("\n## {}\n\n", title.unwrap_or_else(|| "Top level".to_owned()));
        for line in [description(table.schema), also_at(&places.collect::<Vec<_>>())] {
            if !line.is_empty() {
                text.push_str(&wrapped(&line));
                text.push_str("\n\n");
            }
        }
        text += "| Key | Type | Default | Effect | Security |\n|---|---|---|---|---|\n";
        let required = table.schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (key, schema) in properties(table.schema) {
            let is_required = required.iter().any(|name| name == key);
            let description = description(schema);
            let notes = Notes::of(&description);
            let default = if is_required { "required" } else { notes.default };
            let cells = [&self.kind(schema), default, notes.effect, notes.security].map(cell);
            text.extend(["| `", key.as_str(), "` | ", &cells.join(" | "), " |\n"]);
        }
        text
    }

    /// Returns the type of a key. The type of a table is a link to its section.
    fn kind(&self, schema: &Value) -> String {
        if let Some(target) = self.target(schema) {
            let table = self.tables.iter().find(|table| std::ptr::eq(table.schema, target));
            return match table {
                Some(table) => format!("[table](#{})", table.places[0].anchor()),
                None if schema["$ref"] == "#/$defs/Period" => "duration".to_owned(),
                None => self.kind(target),
            };
        }
        let kinds: Vec<_> = choices(schema).map(|choice| self.kind(choice)).collect();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
        }
        if !schema["const"].is_null() {
            return format!("`{}`", schema["const"]);
        }
        // A number or boolean may also be a string with an environment variable. The first type in the list
        // is the type of the key.
        match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
            Some("array") => format!("array of {}", self.kind(&schema["items"])),
            Some("object") => format!(
                "table of names, each with a value of type {}",
                self.kind(&schema["additionalProperties"])
            ),
            kind => kind.unwrap_or("any").to_owned(),
        }
    }
}

impl TablePath {
    fn header(&self) -> String {
        if self.is_array { format!("`[[{}]]`", self.path) } else { format!("`[{}]`", self.path) }
    }

    /// Returns the URL fragment that GitHub creates for the heading.
    fn anchor(&self) -> String {
        self.path.replace('.', "").to_lowercase()
    }
}

/// The parts of a description: effect, security notes and default.
struct Notes<'d> {
    effect: &'d str,
    security: &'d str,
    default: &'d str,
}

impl<'d> Notes<'d> {
    fn of(description: &'d str) -> Self {
        let (rest, default) = description.rsplit_once("Default: ").unwrap_or((description, ""));
        let risk = rest.find("Risk: ").or_else(|| rest.find("Risk of ")).unwrap_or(rest.len());
        let (effect, security) = rest.split_at(risk);
        Self { effect: effect.trim(), security: security.trim(), default: default.trim_end_matches('.') }
    }
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flatten()
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten()
}

fn description(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn also_at(places: &[String]) -> String {
    if places.is_empty() { String::new() } else { format!("Also at {}.", places.join(", ")) }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Wraps a paragraph at 120 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= 120 => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

const INTRODUCTION: &str = "\
# Configuration reference

All keys of the config file of `thruway serve`, generated from its JSON Schema. Each section is a table of the TOML
file; `NAME` is a name that you choose. Durations are written `10s`, `1m 30s` or `500ms`.
[serve.toml](../../crates/daemon/examples/serve.toml) is an example config with every key.

Do not edit this page. This command writes it:
`cargo run -p thruway-daemon --example reference > docs/guide/configuration.md`
";
