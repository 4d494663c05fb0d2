//! The samples of `samples.json`.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::ResultType;

use super::writer::{Names, Samples};
use crate::schema::type_names::{self, Form, Rewrite};

/// The file: samples refer to parts as `{"$part": "name"}`.
#[derive(Deserialize)]
pub(super) struct Table {
    parts: Map<String, Value>,
    samples: Vec<Entry>,
    tasks: Vec<Entry>,
}

/// A value, and everything that the schema calls so.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Definitions of the value itself.
    #[serde(default)]
    value: OneOrMore,
    /// Requests and notifications that have it as parameters.
    #[serde(default)]
    request: OneOrMore,
    #[serde(default)]
    notification: OneOrMore,
    /// The results that it is, and the responses around it.
    #[serde(default)]
    result: OneOrMore,
    #[serde(default)]
    responses: Vec<String>,
    #[serde(default)]
    cacheable: bool,
    is: Option<String>,
    /// The error that it is, and the response around it.
    error: Option<String>,
    response: Option<String>,
    /// First and last revision; all revisions if absent.
    from: Option<String>,
    until: Option<String>,
    of: Value,
}

/// One name or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    Several(Vec<String>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl OneOrMore {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        };
        names.iter().map(String::as_str)
    }
}

impl Table {
    pub(super) fn read() -> Result<Self> {
        Ok(serde_json::from_str(include_str!("samples.json"))?)
    }

    /// Returns a part as one of our types.
    pub(super) fn part<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let part = self.parts.get(name).with_context(|| format!("there is no part `{name}`"))?;
        Ok(serde_json::from_value(self.filled(part)?)?)
    }

    /// Writes the samples of a revision.
    pub(super) fn write(&self, samples: &mut Samples) -> Result<()> {
        let revision = samples.revision;
        let of = |name: &Option<String>| name.as_deref().map_or(Ok(revision), str::parse::<Revision>);
        for entry in &self.samples {
            if (of(&entry.from)?..=of(&entry.until)?).contains(&revision) {
                self.write_entry(entry, samples)?;
            }
        }
        Ok(())
    }

    /// Writes the samples of the tasks extension.
    pub(super) fn write_tasks(&self, samples: &mut Samples) -> Result<()> {
        self.tasks.iter().try_for_each(|entry| self.write_entry(entry, samples))
    }

    fn write_entry(&self, entry: &Entry, samples: &mut Samples) -> Result<()> {
        let value = self.filled(&entry.of)?;
        for name in entry.value.iter() {
            let Some(Form::Value(rewrite)) = Form::of(name) else { return Err(unknown(name)) };
            samples.value(name, &written(name, rewrite, &value)?)?;
        }
        for name in entry.request.iter() {
            let Some(Form::Request(method, rewrite)) = type_names::request(name) else {
                return Err(unknown(name));
            };
            samples.request(name, method, &written(name, rewrite, &value)?)?;
        }
        for name in entry.notification.iter() {
            let form = type_names::notification(name);
            let Some(Form::Notification(method, rewrite)) = form else { return Err(unknown(name)) };
            samples.notification(name, method, &written(name, rewrite, &value)?)?;
        }
        for name in entry.result.iter() {
            let Some(Form::Value(rewrite)) = Form::of(name) else { return Err(unknown(name)) };
            let names = Names { result: name, responses: &entry.responses, is_cacheable: entry.cacheable };
            let kind = match entry.is.as_deref() {
                None => ResultType::Complete,
                Some("Task") => ResultType::Task,
                Some("InputRequired") => ResultType::InputRequired,
                Some(other) => return Err(unknown(other)),
            };
            samples.result(names, kind, &written(name, rewrite, &value)?)?;
        }
        if let (Some(name), Some(response)) = (&entry.error, &entry.response) {
            let Some(Form::Error(code)) = Form::of(name) else { return Err(unknown(name)) };
            let error: Error = serde_json::from_value(value)?;
            ensure!(error.code == code, "{name} has another code: {}", error.code.0);
            samples.error(response, name, &error)?;
        }
        Ok(())
    }

    /// Returns a value with its parts in their places.
    fn filled(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::Object(members) => {
                if let Some(name) = members.get("$part").and_then(Value::as_str) {
                    self.filled(self.parts.get(name).with_context(|| format!("there is no part `{name}`"))?)?
                } else {
                    let members = members.iter().map(|(name, value)| Ok((name.clone(), self.filled(value)?)));
                    Value::Object(members.collect::<Result<_>>()?)
                }
            }
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.filled(value)).collect::<Result<_>>()?)
            }
            plain => plain.clone(),
        })
    }
}

/// Reads a value as our type, and returns it as that is written: nothing may be lost.
fn written(name: &str, rewrite: Rewrite, value: &Value) -> Result<Box<RawValue>> {
    let text = rewrite(&value.to_string()).with_context(|| format!("{name} is not read: {value}"))?;
    let back: Value = serde_json::from_str(&text)?;
    ensure!(back == *value, "{name} is written as something else: {back} instead of {value}");
    Ok(RawValue::from_string(text)?)
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow::anyhow!("no type of ours has the name `{name}`: add it to `type_names.rs`")
}
