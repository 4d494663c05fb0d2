//! The properties of tools that decide how the gateway handles their calls.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;
use thruway_mcp::federated::ListItem;
use thruway_mcp::param_headers::ANNOTATION;

/// The properties of a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ToolTraits {
    /// `true` if a call may delete or overwrite data.
    pub(super) is_destructive: bool,
    /// `true` if the schema may request headers `Mcp-Param-*` for arguments.
    pub(super) has_param_headers: bool,
}

/// The properties of all tools in a list, by the member's own names. Computed at the first use.
#[derive(Default, Debug)]
pub(super) struct TraitsOfTools(OnceLock<HashMap<Box<str>, ToolTraits>>);

impl ToolTraits {
    fn of(tool: &ListItem) -> Self {
        let has_param_headers = tool.json().get().contains(ANNOTATION);
        Self { is_destructive: has_destructive_hint(tool), has_param_headers }
    }
}

impl TraitsOfTools {
    /// Returns the properties of the tool with the own name `name`, or `None` if the list does not contain it. `tools`
    /// is the list.
    pub(super) fn of_tool(&self, name: &str, tools: &[ListItem]) -> Option<ToolTraits> {
        let traits = self
            .0
            .get_or_init(|| tools.iter().map(|tool| (tool.key().into(), ToolTraits::of(tool))).collect());
        traits.get(name).copied()
    }
}

fn has_destructive_hint(tool: &ListItem) -> bool {
    #[derive(Deserialize)]
    struct Annotated {
        #[serde(default)]
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Annotations {
        #[serde(default)]
        destructive_hint: Option<bool>,
    }
    let parsed = serde_json::from_str(tool.json().get());
    // Malformed annotations may hide a hint, so they count as a hint.
    parsed.map_or(true, |tool: Annotated| {
        tool.annotations.is_some_and(|annotations| annotations.destructive_hint == Some(true))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};
    use thruway_mcp::federated::ListKind;

    use super::*;

    fn traits(tool: &Value) -> ToolTraits {
        let tool = RawValue::from_string(tool.to_string()).unwrap();
        let tools = [ListItem::parse(ListKind::Tools, &tool).unwrap()];
        let traits = TraitsOfTools::default();
        assert_eq!(traits.of_tool("other", &tools), None);
        traits.of_tool("a", &tools).unwrap()
    }

    #[test]
    fn destructive_hint_is_read_from_the_annotations() {
        let is_destructive =
            |annotations: Value| traits(&json!({"name": "a", "annotations": annotations})).is_destructive;
        for annotations in [json!({"destructiveHint": true}), json!({"destructiveHint": 1})] {
            assert!(is_destructive(annotations.clone()), "{annotations}");
        }
        for annotations in
            [json!({"destructiveHint": false}), json!({}), json!(null), json!({"readOnlyHint": true})]
        {
            assert!(!is_destructive(annotations.clone()), "{annotations}");
        }
    }

    #[test]
    fn request_for_a_header_is_found_in_the_schema() {
        let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}});
        assert!(traits(&json!({"name": "a", "inputSchema": schema})).has_param_headers);
        let schema = json!({"properties": {"a": {"type": "string"}}});
        assert!(!traits(&json!({"name": "a", "inputSchema": schema})).has_param_headers);
    }
}
