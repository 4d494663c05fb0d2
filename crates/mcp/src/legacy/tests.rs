use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::*;
use crate::Revision;
use crate::schema::{CallToolResult, ContentBlock, Resource, ResourceContents, StructuredContent, Tool};

#[test]
fn negotiation_accepts_legacy_revisions_and_falls_back_to_latest() {
    for revision in Revision::ALL.into_iter().filter(|revision| *revision != Revision::R20260728) {
        assert_eq!(negotiate(revision.as_str()), revision);
    }
    for other in ["2026-07-28", "2024-10-07", "", "2025-06-18 ", "DRAFT"] {
        assert_eq!(negotiate(other), Revision::R20251125, "{other:?}");
    }
}

#[test]
fn downgrade_turns_unsupported_content_into_text() {
    let content = vec![
        ContentBlock::text("text"),
        ContentBlock::image(b"1", "image/png"),
        ContentBlock::audio(b"2", "audio/ogg"),
        ContentBlock::ResourceLink(Resource::new("x:y", "y")),
        ContentBlock::resource(ResourceContents::text("x:z", "text/plain", "z")),
    ];
    let replaced = |revision| {
        let mut downgraded = content.clone();
        downgrade(&mut downgraded, revision);
        let changed = downgraded.into_iter().zip(&content).filter(|(after, before)| after != *before);
        changed
            .map(|(after, _)| match after {
                ContentBlock::Text(text) => text.text,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<String>>()
    };
    assert_eq!(replaced(Revision::R20241105), ["[audio, audio/ogg]", "[resource x:y]"]);
    assert_eq!(replaced(Revision::R20250326), ["[resource x:y]"]);
    for revision in [Revision::R20250618, Revision::R20251125, Revision::R20260728] {
        assert!(replaced(revision).is_empty(), "{revision}");
    }
}

#[test]
fn downgrade_removes_output_schema_without_object_type() {
    for (schema, is_kept) in [
        (json!({"type": "object", "properties": {}}), true),
        (json!({"type": "array"}), false),
        (json!({"anyOf": []}), false),
        (json!({"type": ["object", "null"]}), false),
    ] {
        let mut tool = Tool::new("t").with_output_schema(schema.as_object().unwrap().clone());
        downgrade_tool(&mut tool);
        assert_eq!(tool.output_schema.is_some(), is_kept, "{schema}");
    }
}

#[test]
fn downgrade_removes_unsupported_structured_content() {
    let is_kept = |value: Value, revision| {
        let mut result = CallToolResult {
            structured_content: Some(StructuredContent::from_value(&value).unwrap()),
            content: vec![ContentBlock::audio(b"2", "audio/ogg")],
            ..CallToolResult::default()
        };
        downgrade_result(&mut result, revision);
        assert_eq!(matches!(result.content[0], ContentBlock::Audio(_)), revision.has_audio());
        result.structured_content.is_some()
    };
    assert!(is_kept(json!({"n": 1}), Revision::R20250618));
    assert!(!is_kept(json!({"n": 1}), Revision::R20250326));
    assert!(!is_kept(json!({"n": 1}), Revision::R20241105));
    for value in [json!([1]), json!(1), json!("{"), json!(null)] {
        assert!(!is_kept(value, Revision::R20251125));
    }
}
