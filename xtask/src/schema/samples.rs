//! Samples of all values that Thruway writes, serialized by the code of the product.
//!
//! `samples.json` lists the samples with their MCP revisions. Reading a sample as our type and writing it
//! back must not change it. The product itself generates the samples of conversions between revisions.

use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use regex::{Captures, Regex};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use thruway_mcp::json_rpc::{
    Error, ErrorCode, Id, write_error, write_notification, write_request, write_result,
};
use thruway_mcp::modern::{self, ResultType, ResultWriter};
use thruway_mcp::schema::{
    CacheHint, CacheScope, CallToolResult, ClientCapabilities, ContentBlock, JsonObject, MetaObject,
    PromptMessage, StructuredContent, Tool, ToolResultMeta,
};
use thruway_mcp::{Era, Revision, legacy};

use super::type_names::{self, Rewrite};

/// A sample value, and its name in the schema.
pub(super) struct Sample {
    pub(super) definition: String,
    pub(super) value: Value,
}

/// The name of the tasks extension in the folder of schemas.
pub(super) const TASKS: &str = "ext-tasks";

/// Returns all samples of a revision, or of the tasks extension.
pub(super) fn of(name: &str) -> Result<Vec<Sample>> {
    let table: Table = serde_json::from_str(include_str!("samples.json"))?;
    let is_tasks = name == TASKS;
    let revision = if is_tasks { Revision::LATEST } else { name.parse()? };
    let results = ResultWriter::new(&table.part("implementation")?)?;
    let mut samples = Samples { revision, results, all: Vec::new() };
    let of = |name: &Option<String>| name.as_deref().map_or(Ok(revision), str::parse::<Revision>);
    for entry in if is_tasks { &table.tasks } else { &table.samples } {
        if (of(&entry.from)?..=of(&entry.until)?).contains(&revision) {
            samples.entry(entry, &table)?;
        }
    }
    if !is_tasks {
        conversions(&table, &mut samples)?;
    }
    Ok(samples.all)
}

/// The contents of `samples.json`. Samples refer to parts as `{"$part": "name"}`.
#[derive(Deserialize)]
struct Table {
    parts: Map<String, Value>,
    samples: Vec<Entry>,
    tasks: Vec<Entry>,
}

/// A value, and all definitions that it must match.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Entry {
    /// Names of the definitions that the value itself matches.
    value: Vec<String>,
    /// Names of the requests and notifications with this value as parameters.
    message: Vec<String>,
    /// Names of the definitions that the value matches as a result. `responses` names the definitions of its
    /// responses, which exist since MCP revision 2026-07-28.
    result: Vec<String>,
    responses: Vec<String>,
    cacheable: bool,
    /// Name of the definition that the value matches as an error.
    error: Option<String>,
    /// First and last revision; all revisions if absent.
    from: Option<String>,
    until: Option<String>,
    of: Value,
}

impl Table {
    /// Returns a part as one of our types.
    fn part<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        Ok(serde_json::from_str(&self.filled(&self.parts[name]))?)
    }

    /// Returns a value as JSON, with its parts inserted.
    fn filled(&self, value: &Value) -> String {
        static PART: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r#"\{"\$part":"(\w+)"\}"#).expect("the pattern is valid"));
        let part = |found: &Captures<'_>| self.filled(&self.parts[&found[1]]);
        PART.replace_all(&value.to_string(), part).into_owned()
    }
}

/// The samples of one revision.
struct Samples {
    revision: Revision,
    results: ResultWriter,
    all: Vec<Sample>,
}

impl Samples {
    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    /// Adds a sample for each definition.
    fn add<'n>(&mut self, definitions: impl IntoIterator<Item = &'n str>, bytes: &[u8]) -> Result<()> {
        let value: Value = serde_json::from_slice(bytes)?;
        let sample = |definition: &str| Sample { definition: definition.to_owned(), value: value.clone() };
        self.all.extend(definitions.into_iter().map(sample));
        Ok(())
    }

    fn value(&mut self, definition: &str, value: &impl Serialize) -> Result<()> {
        self.add([definition], &serde_json::to_vec(value)?)
    }

    fn entry(&mut self, entry: &Entry, table: &Table) -> Result<()> {
        let text = table.filled(&entry.of);
        for name in &entry.value {
            self.value(name, &written(name, type_names::value(name), &text)?)?;
        }
        for name in &entry.message {
            let (method, rewrite) = type_names::message(name).unzip();
            self.message(name, method.unwrap_or_default(), &written(name, rewrite, &text)?)?;
        }
        for name in &entry.result {
            let result = written(name, type_names::value(name), &text)?;
            self.result(name, &entry.responses, entry.cacheable, &result)?;
        }
        if let Some(name) = &entry.error {
            let error: Error = serde_json::from_str(&text)?;
            ensure!(
                type_names::error(name) == Some(error.code),
                "{name} has a different error code: {}",
                error.code.0
            );
            self.error("JSONRPCErrorResponse", &error)?;
            self.value(name, &error)?;
        }
        Ok(())
    }

    /// Adds a request or a notification, and its envelope, which has a separate definition.
    fn message(&mut self, definition: &str, method: &str, params: &impl Serialize) -> Result<()> {
        let mut output = Vec::new();
        if definition.ends_with("Notification") {
            write_notification(&mut output, method, params);
            return self.add([definition, "JSONRPCNotification", "JSONRPCMessage"], &output);
        }
        for id in [Id::Integer(7), Id::String("seven".into())] {
            output.clear();
            write_request(&mut output, &id, method, params);
            self.add([definition, "JSONRPCRequest", "JSONRPCMessage"], &output)?;
        }
        Ok(())
    }

    /// Adds a result of a server, and the responses that contain it.
    fn result(
        &mut self,
        name: &str,
        responses: &[String],
        is_cacheable: bool,
        result: &impl Serialize,
    ) -> Result<()> {
        let mut written = serde_json::to_vec(result)?;
        if self.is_modern() {
            let kind = match name {
                "CreateTaskResult" => ResultType::Task,
                "InputRequiredResult" => ResultType::InputRequired,
                _ => ResultType::Complete,
            };
            let mut members: MetaObject = serde_json::from_slice(&written)?;
            let meta = members.shift_remove("_meta");
            let meta = meta.as_ref().and_then(Value::as_object);
            let cache = CacheHint { ttl_ms: 90_000, cache_scope: CacheScope::Public };
            written.clear();
            self.results.write(&mut written, kind, is_cacheable.then_some(cache), &members, meta)?;
        }
        let mut output = Vec::new();
        write_result(&mut output, &Id::Integer(-3), |output| {
            output.extend_from_slice(&written);
            Ok(())
        });
        self.add([name], &written)?;
        self.add(responses.iter().map(String::as_str), &output)?;
        self.add(["JSONRPCResultResponse", "JSONRPCResponse", "JSONRPCMessage"], &output)
    }

    /// Adds an error response, and the error without the response.
    fn error(&mut self, response: &str, error: &Error) -> Result<()> {
        let mut output = Vec::new();
        write_error(&mut output, Some(&Id::Integer(0)), error);
        self.add([response, "JSONRPCErrorResponse", "JSONRPCError", "JSONRPCMessage"], &output)?;
        self.value("Error", error)
    }
}

/// Adds samples that the product generates: values for older revisions, errors, and cached lists.
fn conversions(table: &Table, samples: &mut Samples) -> Result<()> {
    let mut blocks = content(table)?;
    legacy::downgrade(&mut blocks, samples.revision);
    for block in blocks {
        samples.value("PromptMessage", &PromptMessage::assistant(block))?;
    }
    let array: JsonObject = serde_json::from_value(json!({"type": "array"}))?;
    let mut lister = Tool::new("harbours").with_output_schema(array);
    if !samples.is_modern() {
        legacy::downgrade_tool(&mut lister);
    }
    samples.value("Tool", &lister)?;
    tool_results(table, samples)?;
    if samples.is_modern() {
        let lacking = ClientCapabilities::default().with_elicitation().with_sampling();
        for (definition, error) in [
            ("HeaderMismatchError", Error::new(ErrorCode::HEADER_MISMATCH, "the header lies")),
            ("MissingRequiredClientCapabilityError", modern::missing_capability(&lacking)),
            ("UnsupportedProtocolVersionError", modern::unsupported_version("1066-10-14")),
        ] {
            samples.error(definition, &error)?;
        }
        // This list has members that are already serialized, like the lists that servers cache.
        let members = [b"\"tools\":[", &serde_json::to_vec(&table.part::<Tool>("tool")?)?[..], b"]"].concat();
        let mut output = Vec::new();
        samples.results.write_members(&mut output, Some(CacheHint::default()), &members)?;
        samples.add(["ListToolsResult"], &output)?;
    }
    if samples.revision >= Revision::R20251125 {
        // Earlier revisions have no error response without a request ID.
        let error = Error::new(ErrorCode::PARSE_ERROR, "it does not work").with_data(json!({"gauge": 12}));
        let mut output = Vec::new();
        write_error(&mut output, None, &error);
        samples.add(["JSONRPCErrorResponse"], &output)?;
    }
    Ok(())
}

/// Returns one content block of each kind.
fn content(table: &Table) -> Result<Vec<ContentBlock>> {
    let kinds = ["text_content", "image_content", "audio_content", "resource_link", "embedded_resource"];
    kinds.into_iter().map(|part| table.part(part)).collect()
}

fn tool_results(table: &Table, samples: &mut Samples) -> Result<()> {
    let meta: JsonObject = serde_json::from_value(json!({"tides.example/source": {"gauge": 12}}))?;
    let mut results = vec![
        CallToolResult::text("done"),
        CallToolResult::error("no such harbour"),
        CallToolResult::default(),
        CallToolResult {
            content: content(table)?,
            is_error: Some(false),
            meta: Some(ToolResultMeta::try_from(&meta)?),
            ..CallToolResult::default()
        },
    ];
    for value in [json!({"at": "6:12"}), json!([1, 2]), json!("6:12"), json!(null), json!(2.5)] {
        let structured_content = Some(StructuredContent::from_value(&value)?);
        results.push(CallToolResult { structured_content, ..CallToolResult::text("6:12") });
    }
    let responses = ["CallToolResultResponse".to_owned()];
    for mut result in results {
        if !samples.is_modern() {
            legacy::downgrade_result(&mut result, samples.revision);
        }
        samples.result("CallToolResult", &responses, false, &result)?;
    }
    Ok(())
}

/// Reads JSON as our type, and writes it back. The written JSON must equal the read JSON.
fn written(name: &str, rewrite: Option<Rewrite>, text: &str) -> Result<Box<RawValue>> {
    let rewrite = rewrite.with_context(|| format!("add `{name}` to `type_names.rs`"))?;
    let back = rewrite(text).with_context(|| format!("cannot read {name}: {text}"))?;
    let (read, expected): (Value, Value) = (serde_json::from_str(&back)?, serde_json::from_str(text)?);
    ensure!(read == expected, "{name} changed: wrote {back} instead of {text}");
    Ok(RawValue::from_string(back)?)
}
