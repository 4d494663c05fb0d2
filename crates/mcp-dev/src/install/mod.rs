//! Entries for MCP servers in the configs of desktop applications and editors.

mod entry;
mod application;
mod json_edit;
mod config_file;
mod plan;

pub use application::{Application, Scope};
pub use config_file::Written;
pub use entry::{ConfigChange, Places, ServerEntry, ServerTarget};
pub use plan::Plan;
