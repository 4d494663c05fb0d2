//! Writes results with the members that the modern era adds.

use alloc::vec::Vec;

use serde::Serialize;

use crate::json_rpc::Error;
use crate::params::meta_keys;
use crate::schema::{CacheHint, Implementation, MetaObject};

/// Writes results with the members that the modern era adds: `resultType`, the cache hint, and the
/// server's name and version.
#[derive(Clone, Debug)]
pub struct ResultWriter {
    /// The JSON text `"io.modelcontextprotocol/serverInfo":{…}`.
    server_info: Vec<u8>,
}

/// The type of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// The result answers the request completely.
    Complete,
    /// The result contains elicitation, sampling or roots requests that the client must answer first.
    InputRequired,
    /// The result names a task, which will provide the answer later.
    Task,
}

impl ResultType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
        }
    }
}

impl ResultWriter {
    /// Returns a writer for the results of one server.
    ///
    /// # Errors
    /// The server's name or version cannot be written as JSON.
    pub fn new(server_info: &Implementation) -> Result<Self, serde_json::Error> {
        let mut bytes = serde_json::to_vec(meta_keys::SERVER_INFO)?;
        bytes.push(b':');
        serde_json::to_writer(&mut bytes, server_info)?;
        Ok(Self { server_info: bytes })
    }

    /// Appends a result. `members` contains the members of the result except `_meta`. `meta` contains the
    /// members of `_meta` that the result adds to the server's name and version.
    ///
    /// # Errors
    /// The result cannot be written as a JSON object.
    pub fn write(
        &self,
        output: &mut Vec<u8>,
        kind: ResultType,
        cache: Option<CacheHint>,
        members: &impl Serialize,
        meta: Option<&MetaObject>,
    ) -> Result<(), Error> {
        write_start(output, kind, cache);
        append_members(output, members)?;
        self.write_end(output, meta)
    }

    /// Appends a complete result. `members` is JSON text, such as `"tools":[…]`.
    ///
    /// # Errors
    /// The function returns the same errors as [`write`](Self::write).
    pub fn write_members(
        &self,
        output: &mut Vec<u8>,
        cache: Option<CacheHint>,
        members: &[u8],
    ) -> Result<(), Error> {
        write_start(output, ResultType::Complete, cache);
        output.push(b',');
        output.extend_from_slice(members);
        self.write_end(output, None)
    }

    fn write_end(&self, output: &mut Vec<u8>, meta: Option<&MetaObject>) -> Result<(), Error> {
        output.extend_from_slice(br#","_meta":{"#);
        output.extend_from_slice(&self.server_info);
        if let Some(meta) = meta {
            append_members(output, meta)?;
        }
        output.extend_from_slice(b"}}");
        Ok(())
    }
}

fn write_start(output: &mut Vec<u8>, kind: ResultType, cache: Option<CacheHint>) {
    output.extend_from_slice(br#"{"resultType":""#);
    output.extend_from_slice(kind.as_str().as_bytes());
    output.push(b'"');
    if let Some(cache) = cache {
        // This cannot fail, because a cache hint contains only plain data.
        let _ = append_members(output, &cache);
    }
}

/// Appends the members of `object` to an object that already has members and has no closing brace yet.
pub(super) fn append_members(output: &mut Vec<u8>, object: &impl Serialize) -> Result<(), Error> {
    let start = output.len();
    if serde_json::to_writer(&mut *output, object).is_err() || output.get(start) != Some(&b'{') {
        output.truncate(start);
        return Err(Error::internal("cannot write the result as JSON"));
    }
    output.pop();
    if output.len() > start + 1 {
        output[start] = b',';
    } else {
        output.truncate(start);
    }
    Ok(())
}
