//! The way in which samples are written.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use thruway_mcp::json_rpc::{Error, Id, write_error, write_notification, write_request, write_result};
use thruway_mcp::modern::{ResultType, ResultWriter};
use thruway_mcp::schema::{CacheHint, CacheScope, Implementation, MetaObject};
use thruway_mcp::{Era, Revision};

/// A value that we write, and its name in the schema.
pub(in crate::schema) struct Sample {
    pub(in crate::schema) definition: String,
    pub(in crate::schema) value: Value,
    /// `true` for a whole message. Its parts are samples too.
    pub(in crate::schema) is_message: bool,
}

/// The samples of one revision.
pub(super) struct Samples {
    pub(super) revision: Revision,
    pub(super) results: ResultWriter,
    pub(super) all: Vec<Sample>,
}

impl Samples {
    pub(super) fn new(revision: Revision, implementation: &Implementation) -> Result<Self> {
        let results = ResultWriter::new(implementation)?;
        Ok(Self { revision, results, all: Vec::new() })
    }

    pub(super) fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    pub(super) fn add(&mut self, definition: &str, bytes: &[u8]) -> Result<()> {
        let value: Value = serde_json::from_slice(bytes)?;
        let is_message = value.get("jsonrpc").is_some();
        self.all.push(Sample { definition: definition.to_owned(), value, is_message });
        Ok(())
    }

    /// A part of a message.
    pub(super) fn value(&mut self, definition: &str, value: &impl Serialize) -> Result<()> {
        self.add(definition, &serde_json::to_vec(value)?)
    }

    /// A request; its envelope has a definition of its own.
    pub(super) fn request(&mut self, definition: &str, method: &str, params: &impl Serialize) -> Result<()> {
        for id in [Id::Integer(7), Id::String("seven".into())] {
            let mut output = Vec::new();
            write_request(&mut output, &id, method, params);
            self.add(definition, &output)?;
            self.add("JSONRPCRequest", &output)?;
            self.add("JSONRPCMessage", &output)?;
        }
        Ok(())
    }

    /// A notification; likewise.
    pub(super) fn notification(
        &mut self,
        definition: &str,
        method: &str,
        params: &impl Serialize,
    ) -> Result<()> {
        let mut output = Vec::new();
        write_notification(&mut output, method, params);
        self.add(definition, &output)?;
        self.add("JSONRPCNotification", &output)?;
        self.add("JSONRPCMessage", &output)
    }

    /// A result that a server writes, and the response around it.
    pub(super) fn result(&mut self, of: Names<'_>, kind: ResultType, result: &impl Serialize) -> Result<()> {
        let written = self.written_result(of, kind, result)?;
        let mut output = Vec::new();
        write_result(&mut output, &Id::Integer(-3), |output| {
            output.extend_from_slice(&written);
            Ok(())
        });
        self.add(of.result, &written)?;
        for definition in of.responses.iter().map(String::as_str).chain(RESPONSES) {
            self.add(definition, &output)?;
        }
        Ok(())
    }

    fn written_result(&self, of: Names<'_>, kind: ResultType, result: &impl Serialize) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(result)?;
        if self.is_modern() {
            let mut members: MetaObject = serde_json::from_slice(&bytes)?;
            let meta = members.shift_remove("_meta");
            let meta = meta.as_ref().and_then(Value::as_object);
            let cache =
                of.is_cacheable.then_some(CacheHint { ttl_ms: 90_000, cache_scope: CacheScope::Public });
            bytes.clear();
            self.results.write(&mut bytes, kind, cache, &members, meta)?;
        }
        Ok(bytes)
    }

    /// A response that is an error, and the error alone.
    pub(super) fn error(&mut self, response: &str, error_only: &str, error: &Error) -> Result<()> {
        let mut output = Vec::new();
        write_error(&mut output, Some(&Id::Integer(0)), error);
        for definition in [response, "JSONRPCErrorResponse", "JSONRPCError", "JSONRPCMessage"] {
            self.add(definition, &output)?;
        }
        self.value(error_only, error)?;
        self.value("Error", error)
    }
}

/// Names of a result and of the responses around it.
#[derive(Clone, Copy)]
pub(super) struct Names<'n> {
    pub(super) result: &'n str,
    /// From 2026-07-28 on.
    pub(super) responses: &'n [String],
    pub(super) is_cacheable: bool,
}

/// Definitions of every response.
const RESPONSES: [&str; 3] = ["JSONRPCResultResponse", "JSONRPCResponse", "JSONRPCMessage"];
