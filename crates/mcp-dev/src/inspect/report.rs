//! The text of an inspection, for people at a terminal.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use thruway_mcp_sdk::schema::{Prompt, Tool};

use super::inspection::Inspection;
use crate::message::{escaped, escaped_line};

/// Lines of a report, with indentation.
#[derive(Default)]
struct Report(String);

impl Inspection {
    /// Returns the description as text for people. Control characters are escaped, and long texts and long
    /// lists are cut. The text states how much is missing.
    pub fn to_text(&self) -> String {
        let mut report = Report::default();
        report.server(self);
        report.section("Tools", &self.tools, Report::tool);
        report.section("Prompts", &self.prompts, Report::prompt);
        report.section("Resources", &self.resources, |report, resource| {
            let kind = resource.mime_type.as_deref();
            report.entry(&resource.uri, Some(&resource.name), kind, resource.description.as_deref());
        });
        report.section("Resource templates", &self.resource_templates, |report, template| {
            let kind = template.mime_type.as_deref();
            report.entry(&template.uri_template, Some(&template.name), kind, template.description.as_deref());
        });
        for error in &self.errors {
            let reason = escaped_line(&error.error.to_string(), LINE_BYTES_MAX);
            report.line(0, &format!("\nThe server did not send its list `{}`: {reason}", error.list));
        }
        report.0
    }
}

impl Report {
    fn line(&mut self, indent: usize, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{:indent$}{line}", "");
    }

    /// Writes a text with several lines. Skips empty lines at its end.
    fn text(&mut self, indent: usize, text: &str) {
        for line in escaped(text.trim_end(), TEXT_BYTES_MAX).lines() {
            self.line(indent, line);
        }
    }

    fn server(&mut self, inspection: &Inspection) {
        let discovered = &inspection.discovered;
        let server = inspection.server();
        let member = |name: &str| {
            let text = server.and_then(|server| server[name].as_str()).unwrap_or("(not reported)");
            escaped_line(text, LINE_BYTES_MAX)
        };
        self.line(0, &format!("Server        {} {}", member("name"), member("version")));
        if server.is_some_and(|server| server["title"].is_string()) {
            self.line(0, &format!("Title         {}", member("title")));
        }
        self.line(0, &format!("MCP revision  {}", inspection.revision));
        let supported = escaped_line(&discovered.supported_versions.join(", "), LINE_BYTES_MAX);
        self.line(0, &format!("Revisions     {supported}"));
        let capabilities = serde_json::to_value(&discovered.capabilities).unwrap_or_default();
        let names: Vec<_> = capabilities.as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
        self.line(
            0,
            &format!("Capabilities  {}", if names.is_empty() { "none".into() } else { names.join(", ") }),
        );
        if let Some(instructions) = &discovered.instructions {
            self.line(0, "Instructions");
            self.text(2, instructions);
        }
    }

    fn section<T>(&mut self, title: &str, entries: &[T], write: impl Fn(&mut Self, &T)) {
        if entries.is_empty() {
            return;
        }
        self.line(0, &format!("\n{title} ({})", entries.len()));
        for entry in entries.iter().take(ENTRIES_MAX) {
            write(self, entry);
        }
        if let Some(more @ 1..) = entries.len().checked_sub(ENTRIES_MAX) {
            self.line(2, &format!("… and {more} more; the JSON output contains all of them"));
        }
    }

    fn entry(&mut self, name: &str, title: Option<&str>, kind: Option<&str>, description: Option<&str>) {
        let mut line = escaped_line(name, LINE_BYTES_MAX);
        for part in [title, kind].into_iter().flatten().filter(|part| *part != name) {
            let _ = write!(line, "  {}", escaped_line(part, LINE_BYTES_MAX));
        }
        self.line(2, &line);
        self.text(6, description.unwrap_or_default());
    }

    fn tool(&mut self, tool: &Tool) {
        let hints = tool.annotations.as_ref().map(|hints| {
            let named = [
                (hints.read_only_hint, "read-only"),
                (hints.destructive_hint, "destructive"),
                (hints.idempotent_hint, "idempotent"),
                (hints.open_world_hint, "open world"),
            ];
            let set = named.iter().filter(|(hint, _)| *hint == Some(true)).map(|(_, name)| *name);
            set.collect::<Vec<_>>().join(", ")
        });
        let hints = hints.filter(|hints| !hints.is_empty()).map(|hints| format!("[{hints}]"));
        self.entry(&tool.name, tool.title.as_deref(), hints.as_deref(), tool.description.as_deref());
        self.properties("", &tool.input_schema);
        if let Some(schema) = &tool.output_schema {
            self.properties("→ ", schema);
        }
    }

    /// Writes a line for each property of the JSON Schema of an object.
    fn properties(&mut self, prefix: &str, schema: &Map<String, Value>) {
        let Some(Value::Object(properties)) = schema.get("properties") else { return };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
        for (name, property) in properties.iter().take(PROPERTIES_MAX) {
            let mark = if is_required(name) { "" } else { "?" };
            let name = escaped_line(name, LINE_BYTES_MAX);
            let kind = escaped_line(&kind_of(property), LINE_BYTES_MAX);
            let mut line = format!("{prefix}{name}{mark}: {kind}");
            if let Some(description) = property["description"].as_str() {
                let _ = write!(line, "  {}", escaped_line(description, LINE_BYTES_MAX));
            }
            self.line(6, &line);
        }
        if let Some(more @ 1..) = properties.len().checked_sub(PROPERTIES_MAX) {
            self.line(6, &format!("… and {more} more properties"));
        }
    }

    fn prompt(&mut self, prompt: &Prompt) {
        self.entry(&prompt.name, prompt.title.as_deref(), None, prompt.description.as_deref());
        for argument in prompt.arguments.iter().take(PROPERTIES_MAX) {
            let mark = if argument.required == Some(true) { "" } else { "?" };
            let mut line = format!("{}{mark}", escaped_line(&argument.name, LINE_BYTES_MAX));
            if let Some(description) = &argument.description {
                let _ = write!(line, "  {}", escaped_line(description, LINE_BYTES_MAX));
            }
            self.line(6, &line);
        }
        if let Some(more @ 1..) = prompt.arguments.len().checked_sub(PROPERTIES_MAX) {
            self.line(6, &format!("… and {more} more arguments"));
        }
    }
}

/// Returns the type that a JSON Schema names, such as `integer` or `string or null`.
fn kind_of(schema: &Value) -> String {
    if let Some(Value::Array(values)) = schema.get("enum") {
        let shown = values.iter().take(OPTIONS_MAX).map(Value::to_string).collect::<Vec<_>>().join(" | ");
        return if values.len() > OPTIONS_MAX { format!("{shown} | …") } else { shown };
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match &schema["items"]["type"] {
            Value::String(item) => format!("array of {item}"),
            _ => "array".to_owned(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<_> = names.iter().take(OPTIONS_MAX).filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// Maximum number of entries of each list in the report.
const ENTRIES_MAX: usize = 1_000;

/// Maximum number of properties of a schema, and of arguments of a prompt.
const PROPERTIES_MAX: usize = 50;

/// Maximum number of values of an `enum` or a `type`.
const OPTIONS_MAX: usize = 10;

/// Maximum length of a text on one line, in bytes.
const LINE_BYTES_MAX: usize = 200;

/// Maximum length of a description, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
