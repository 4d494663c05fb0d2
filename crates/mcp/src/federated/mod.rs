//! Several MCP servers (the *members*) behind one endpoint: the names of their tools, and their merged lists.
//!
//! A member's name for a tool or a prompt is its *own name*. Clients of the endpoint use the *public name*.
//! Clients use resource URIs unchanged, unless the operator has requested public URIs for the member.

mod patterns;
mod filter;
mod names;
mod uris;
mod items;
mod cursor;
mod merge;
mod outcome;
mod search;
mod splice;

pub use cursor::{Cursor, InvalidCursor};
pub use filter::{CompiledFilter, InvalidFilter, ToolFilter};
pub use items::{ItemInvalid, ListItem, ListKind};
pub use merge::{MemberItems, MergedEntry, MergedList, Page, WithheldItem};
pub use names::{EndpointNames, InvalidMemberName, MemberName, NameStyle, Withheld};
pub use outcome::{CallOutcome, OutcomeScan};
pub use patterns::{Glob, InvalidGlob, matches_template};
pub use search::{SearchIndex, SearchText};
pub use splice::ScannedCall;
pub use uris::UriRewriter;
