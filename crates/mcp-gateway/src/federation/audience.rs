//! Changes of list items for clients that use another revision than the member.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::federated::{ListItem, ListKind};
use thruway_mcp::members::append_members;
use thruway_mcp::{Era, Revision};

use super::fetch::MemberList;

/// The receivers of a merged list. All of them get the same text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Audience {
    /// The gateway itself. It needs only names.
    Gateway,
    /// Clients of all revisions.
    AllClients,
    /// Modern clients.
    Modern,
    /// Legacy clients with structured results of tools.
    LegacyStructured,
    /// Legacy clients without structured results.
    LegacyUnstructured,
}

impl Audience {
    pub(super) fn of(kind: ListKind, revision: Revision) -> Self {
        match kind {
            ListKind::Tools if revision.era() == Era::Modern => Self::Modern,
            ListKind::Tools if revision.has_structured_output() => Self::LegacyStructured,
            ListKind::Tools => Self::LegacyUnstructured,
            _ => Self::AllClients,
        }
    }
}

/// Returns the items of a list as the clients can use them. Removes output schemas in two cases. First, the
/// member's revision may have no structured results, so the results cannot match the schema. Second, legacy
/// clients support only output schemas of the type `object`.
pub(super) fn adapt(kind: ListKind, audience: Audience, list: &MemberList) -> Cow<'_, [ListItem]> {
    let is_kept: fn(&RawValue) -> bool = match audience {
        Audience::Modern | Audience::LegacyStructured if !list.revision.has_structured_output() => |_| false,
        Audience::LegacyStructured | Audience::LegacyUnstructured if list.revision.era() == Era::Modern => {
            is_object_schema
        }
        _ => return Cow::Borrowed(&list.items),
    };
    let adapted = list.items.iter().map(|item| without_schema(kind, item, is_kept));
    Cow::Owned(adapted.collect())
}

/// Returns the tool without its output schema, unless `is_kept` returns `true`.
fn without_schema(kind: ListKind, item: &ListItem, is_kept: fn(&RawValue) -> bool) -> ListItem {
    if !item.json().get().contains("\"outputSchema\"") {
        return item.clone();
    }
    let mut output = vec![b'{'];
    // This cannot fail, because an item is an object.
    let _ = append_members(&mut output, item.json(), |name, value| name != "outputSchema" || is_kept(value));
    output.push(b'}');
    let json = String::from_utf8(output).ok().and_then(|json| RawValue::from_string(json).ok());
    json.and_then(|json| ListItem::parse(kind, &json).ok()).unwrap_or_else(|| item.clone())
}

fn is_object_schema(schema: &RawValue) -> bool {
    serde_json::from_str(schema.get()).is_ok_and(|schema: Value| schema["type"] == "object")
}
