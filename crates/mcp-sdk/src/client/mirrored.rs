//! The arguments that tools want mirrored in headers (2026-07-28, Streamable HTTP).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::header_value;
use thruway_mcp::param_headers::{self, ParamHeader};
use thruway_mcp::schema::Tool;

use super::binding::Field;

/// What is known of tools: those that mirror nothing are not in it.
#[derive(Default, Debug)]
pub(super) struct Mirrored(Mutex<HashMap<String, Arc<[ParamHeader]>>>);

impl Mirrored {
    /// Remembers what `tools` want mirrored, and leaves those out that cannot be called for what they want.
    pub(super) fn learn(&self, tools: &mut Vec<Tool>) {
        tools.retain(|tool| match param_headers::find(&tool.input_schema) {
            Ok(headers) => {
                self.remember(tool, headers);
                true
            }
            Err(invalid) => {
                tracing::warn!(
                    "the tool `{}` is left out: its `x-mcp-header` is invalid: {invalid:?}",
                    tool.name
                );
                false
            }
        });
    }

    fn remember(&self, tool: &Tool, headers: Vec<ParamHeader>) {
        let mut known = self.known();
        if headers.is_empty() {
            known.remove(&tool.name);
        } else if known.len() < TOOLS_MAX || known.contains_key(&tool.name) {
            known.insert(tool.name.clone(), headers.into());
        }
    }

    /// The headers of a call of `tool`.
    pub(super) fn fields(&self, tool: &str, arguments: &RawValue) -> Vec<Field> {
        let Some(headers) = self.known().get(tool).cloned() else { return Vec::new() };
        let arguments: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        let fields = headers.iter().filter_map(|header| {
            let value = header.expected(&arguments)?;
            Some((header.field_name.clone().into(), header_value::encode(&value).into_owned()))
        });
        fields.collect()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<[ParamHeader]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of how many tools this is remembered.
const TOOLS_MAX: usize = 10_000;
