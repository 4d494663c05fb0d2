//! Samples that the product makes itself: for older revisions, of errors, and of lists that are written
//! before.

use anyhow::Result;
use serde_json::json;
use thruway_mcp::json_rpc::{Error, ErrorCode, write_error};
use thruway_mcp::modern;
use thruway_mcp::schema::{
    CacheHint, CallToolResult, ClientCapabilities, ContentBlock, JsonObject, PromptMessage,
    StructuredContent, Tool, ToolResultMeta,
};
use thruway_mcp::{Revision, legacy};

use super::{Samples, Table};

pub(super) fn write(table: &Table, samples: &mut Samples) -> Result<()> {
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
        // A list from members that are already written, as servers keep them.
        let members = [b"\"tools\":[", &serde_json::to_vec(&table.part::<Tool>("tool")?)?[..], b"]"].concat();
        let mut output = Vec::new();
        samples.results.write_members(&mut output, Some(CacheHint::default()), &members)?;
        samples.add(["ListToolsResult"], &output)?;
    }
    if samples.revision >= Revision::R20251125 {
        // Earlier revisions have no error response for an unknown request.
        let error = Error::new(ErrorCode::PARSE_ERROR, "it does not work").with_data(json!({"gauge": 12}));
        let mut output = Vec::new();
        write_error(&mut output, None, &error);
        samples.add(["JSONRPCErrorResponse"], &output)?;
    }
    Ok(())
}

/// One block of each kind.
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
