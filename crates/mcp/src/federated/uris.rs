//! Rewrites the resource URIs of a member, so that the URIs of different members never clash.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::members::{append_line, append_member, append_members};
use crate::schema::methods;

/// The mapping between the own URIs of a member and the public URIs `member+uri`. The name of the member and
/// the scheme of the own URI together are the scheme of the public URI.
///
/// Exception: the public form of `ui://rest` is `ui://member+rest`, because clients with MCP Apps require this
/// scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UriRewriter {
    /// The name of the member and `+`.
    prefix: Box<str>,
}

impl UriRewriter {
    /// Creates the mapping for the member with the name `member`. Returns `None` if the name does not begin
    /// with a letter, because the public URIs would be invalid (RFC 3986, section 3.1).
    pub fn new(member: &str) -> Option<Self> {
        let starts_with_letter = member.starts_with(|c: char| c.is_ascii_lowercase());
        starts_with_letter.then(|| Self { prefix: format!("{member}+").into() })
    }

    /// Returns the public URI for the own URI or URI template `own`.
    pub fn public(&self, own: &str) -> String {
        match own.strip_prefix(UI_SCHEME) {
            Some(rest) => format!("{UI_SCHEME}{}{rest}", self.prefix),
            None => format!("{}{own}", self.prefix),
        }
    }

    /// Returns the own URI, or `None` if `public` is no public URI of this member.
    pub fn own<'u>(&self, public: &'u str) -> Option<Cow<'u, str>> {
        match public.strip_prefix(UI_SCHEME) {
            Some(rest) => Some(format!("{UI_SCHEME}{}", rest.strip_prefix(&*self.prefix)?).into()),
            // Each own URI has only one public form.
            None => Some(public.strip_prefix(&*self.prefix)?.into())
                .filter(|own: &Cow<'_, str>| !own.starts_with(UI_SCHEME)),
        }
    }

    /// Returns the definition of a tool with the public URI of its user interface (MCP Apps). Returns `None`
    /// if the definition contains no such URI.
    pub fn rewrite_tool(&self, tool: &RawValue) -> Option<Box<RawValue>> {
        self.rewrite(tool, TOOL)
    }

    /// Returns the result of a request with public URIs: in resource links, embedded resources and the
    /// contents of resources. Returns `None` if the result contains no such URI.
    pub fn rewrite_result(&self, method: &str, result: &RawValue) -> Option<Box<RawValue>> {
        match method {
            methods::TOOLS_CALL | methods::TASKS_RESULT => self.rewrite(result, TOOL_RESULT),
            methods::TASKS_GET => self.rewrite(result, TASK),
            methods::PROMPTS_GET => self.rewrite(result, PROMPT),
            methods::RESOURCES_READ => self.rewrite(result, RESOURCE),
            _ => None,
        }
    }

    fn rewrite(&self, json: &RawValue, paths: &[&[Step]]) -> Option<Box<RawValue>> {
        // Search the text before parsing, because most results contain no URI.
        let has_uri = json.get().contains("\"uri\"") || json.get().contains("esourceUri\"");
        if has_uri { self.rewritten(json, paths) } else { None }
    }

    /// Returns a copy of `json` with changed strings at `paths`. Returns `None` if there is no such string.
    fn rewritten(&self, json: &RawValue, paths: &[&[Step]]) -> Option<Box<RawValue>> {
        if paths.iter().any(|path| path.is_empty()) {
            let Text(uri) = serde_json::from_str(json.get()).ok()?;
            return to_raw_value(&self.public(&uri)).ok();
        }
        let mut output = Vec::with_capacity(json.get().len() + self.prefix.len());
        let is_changed = match json.get().as_bytes().first()? {
            b'{' => self.append_object(&mut output, json, paths)?,
            b'[' => self.append_array(&mut output, json, paths)?,
            _ => false,
        };
        is_changed.then(|| RawValue::from_string(String::from_utf8(output).ok()?).ok()).flatten()
    }

    /// Returns `true` if the copy differs from `object`.
    fn append_object(&self, output: &mut Vec<u8>, object: &RawValue, paths: &[&[Step]]) -> Option<bool> {
        let mut members = Vec::new();
        append_members(&mut Vec::new(), object, |name, value| {
            members.push((String::from(name), value));
            false
        })
        .ok()?;
        let mut is_changed = false;
        output.push(b'{');
        for (name, value) in members {
            let rest = after(paths, |step| matches!(step, Member(member) if *member == name));
            let changed = if rest.is_empty() { None } else { self.rewritten(value, &rest) };
            is_changed |= changed.is_some();
            append_member(output, &name, changed.as_deref().unwrap_or(value).get());
        }
        output.push(b'}');
        Some(is_changed)
    }

    /// Returns `true` if the copy differs from `array`.
    fn append_array(&self, output: &mut Vec<u8>, array: &RawValue, paths: &[&[Step]]) -> Option<bool> {
        let rest = after(paths, |step| matches!(step, Each));
        let items: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        let mut is_changed = false;
        output.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            let changed = if rest.is_empty() { None } else { self.rewritten(item, &rest) };
            is_changed |= changed.is_some();
            if index > 0 {
                output.push(b',');
            }
            append_line(output, changed.as_deref().unwrap_or(item).get());
        }
        output.push(b']');
        Some(is_changed)
    }
}

/// Returns the rest of each path that begins with a matching step.
fn after<'p>(paths: &[&'p [Step]], is_match: impl Fn(&Step) -> bool) -> Vec<&'p [Step]> {
    let rest = paths.iter().filter_map(|path| path.split_first().filter(|(first, _)| is_match(first)));
    rest.map(|(_, rest)| rest).collect()
}

/// A string, borrowed from the input unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The beginning of the URIs of user interfaces (MCP Apps).
const UI_SCHEME: &str = "ui://";

/// A step of a path to a value.
enum Step {
    /// The member with this name.
    Member(&'static str),
    /// Each element of an array.
    Each,
}

use Step::{Each, Member};

/// The paths to the URIs in the definition of a tool. The second form is from a draft of MCP Apps.
const TOOL: &[&[Step]] =
    &[&[Member("_meta"), Member("ui"), Member("resourceUri")], &[Member("_meta"), Member("ui/resourceUri")]];

/// The paths to the URIs in the result of a tool.
const TOOL_RESULT: &[&[Step]] = &[
    &[Member("content"), Each, Member("uri")],
    &[Member("content"), Each, Member("resource"), Member("uri")],
    &[Member("_meta"), Member("ui"), Member("resourceUri")],
    &[Member("_meta"), Member("ui/resourceUri")],
];

/// The paths to the URIs in the state of a task (MCP revision 2026-07-28).
const TASK: &[&[Step]] = &[
    &[Member("result"), Member("content"), Each, Member("uri")],
    &[Member("result"), Member("content"), Each, Member("resource"), Member("uri")],
];

/// The paths to the URIs in a prompt.
const PROMPT: &[&[Step]] = &[
    &[Member("messages"), Each, Member("content"), Member("uri")],
    &[Member("messages"), Each, Member("content"), Member("resource"), Member("uri")],
];

/// The path to the URIs in the contents of a resource.
const RESOURCE: &[&[Step]] = &[&[Member("contents"), Each, Member("uri")]];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned as _;

    fn rewriter() -> UriRewriter {
        UriRewriter::new("files").unwrap()
    }

    fn result(method: &str, json: &str) -> Option<String> {
        let json = serde_json::from_str(json).unwrap();
        rewriter().rewrite_result(method, json).map(|json| json.get().to_owned())
    }

    #[test]
    fn public_uri_leads_back_to_the_own_uri() {
        for (own, public) in [
            ("file:///a", "files+file:///a"),
            ("file:///{+path}", "files+file:///{+path}"),
            ("", "files+"),
            ("files+x:", "files+files+x:"),
            ("ui://view/1", "ui://files+view/1"),
            ("ui://files+view", "ui://files+files+view"),
            ("ui:view", "files+ui:view"),
        ] {
            assert_eq!(rewriter().public(own), public);
            assert_eq!(rewriter().own(public).as_deref(), Some(own));
        }
        for other in
            ["file:///a", "Files+file:///a", "files", "issues+file:///a", "", "ui://view", "files+ui://view"]
        {
            assert_eq!(rewriter().own(other), None, "{other}");
        }
    }

    #[test]
    fn public_uri_has_a_valid_scheme() {
        for (name, is_valid) in [("a", true), ("a-1", true), ("1a", false), ("-a", false)] {
            assert_eq!(UriRewriter::new(name).is_some(), is_valid, "{name}");
        }
    }

    #[test]
    fn only_uris_in_known_places_change() {
        for (method, json, expected) in [
            (
                methods::TOOLS_CALL,
                r#"{"content":[{"type":"text","text":"\u0041 uri"}, {"type":"resource_link","uri":"file:///\u0061","n":1.0e2},
                    {"type":"resource","resource":{"uri":"file:///b","text":"t"}}],"structuredContent":{"uri":"file:///c"}}"#,
                r#"{"content":[{"type":"text","text":"\u0041 uri"},{"type":"resource_link","uri":"files+file:///a","n":1.0e2},{"type":"resource","resource":{"uri":"files+file:///b","text":"t"}}],"structuredContent":{"uri":"file:///c"}}"#,
            ),
            (
                methods::RESOURCES_READ,
                r#"{"contents":[{"uri":"a:1","text":"\"uri\""}],"uri":"a:2"}"#,
                r#"{"contents":[{"uri":"files+a:1","text":"\"uri\""}],"uri":"a:2"}"#,
            ),
            (
                methods::PROMPTS_GET,
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:1"}}}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"files+a:1"}}}]}"#,
            ),
            (
                methods::TASKS_GET,
                r#"{"taskId":"1","result":{"content":[{"uri":"a:1"}]}}"#,
                r#"{"taskId":"1","result":{"content":[{"uri":"files+a:1"}]}}"#,
            ),
        ] {
            assert_eq!(result(method, json).as_deref(), Some(expected), "{method}");
        }
    }

    #[test]
    fn result_without_a_uri_needs_no_copy() {
        for (method, json) in [
            (methods::TOOLS_CALL, r#"{"content":[]}"#),
            (methods::TOOLS_CALL, r#"{"structuredContent":{"uri":"a:1"}}"#),
            (methods::TOOLS_CALL, r#"{"content":[{"uri":1}],"x":"uri"}"#),
            (methods::TOOLS_CALL, r#"{"content":{"uri":"a:1"}}"#),
            (methods::TOOLS_CALL, r#"["uri"]"#),
            (methods::COMPLETION_COMPLETE, r#"{"content":[{"uri":"a:1"}]}"#),
        ] {
            assert_eq!(result(method, json), None, "{json}");
        }
    }

    #[test]
    fn user_interface_of_a_tool_has_a_public_uri() {
        for (tool, expected) in [
            (
                r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://a","visibility":["app"]},"uri":"x"}}"#,
                Some(
                    r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://files+a","visibility":["app"]},"uri":"x"}}"#,
                ),
            ),
            (
                r#"{"_meta":{"ui/resourceUri":"ui://a"}}"#,
                Some(r#"{"_meta":{"ui/resourceUri":"ui://files+a"}}"#),
            ),
            (r#"{"name":"a","inputSchema":{"properties":{"resourceUri":{}}}}"#, None),
        ] {
            let rewritten = rewriter().rewrite_tool(serde_json::from_str(tool).unwrap());
            assert_eq!(rewritten.as_deref().map(RawValue::get), expected, "{tool}");
        }
    }
}
