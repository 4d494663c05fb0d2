//! Prints the results of MCP requests to the standard output, and saves binary content to files. With `--trace`,
//! prints each message to the standard error.

use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use thruway_mcp_dev::Inspection;
use thruway_mcp_sdk::schema::{
    CallToolResult, Completion, ContentBlock, DetailedTask, DiscoverResult, GetPromptResult, Prompt,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Task, TaskStatus, Tool, WorkingTask,
};
use thruway_mcp_sdk::{Direction, Revision, ServerNotification};
use thruway_net::Clock;

use crate::args::McpOutput;

/// Prints results in one of the output formats.
#[derive(Clone, Copy)]
pub(super) struct Printer<'a> {
    pub(super) output: McpOutput,
    /// Directory of `--save`, for images, audio and other binary content.
    pub(super) save: Option<&'a SaveDirectory<'a>>,
}

impl Printer<'_> {
    pub(super) fn discovered(self, result: &DiscoverResult, revision: Revision) -> ExitCode {
        let info = result.meta.as_ref().and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
        let member_text =
            |member: &str| info.and_then(|info| info[member].as_str()).unwrap_or("?").to_owned();
        let offers = serde_json::to_value(&result.capabilities).unwrap_or_default();
        let offers: Vec<_> = offers.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        self.print(result, || {
            let mut rows = vec![
                ["server".to_owned(), format!("{} {}", member_text("name"), member_text("version"))],
                ["revision used".to_owned(), revision.to_string()],
                ["revisions".to_owned(), result.supported_versions.join(", ")],
                ["capabilities".to_owned(), offers.join(", ")],
            ];
            rows.extend(result.instructions.clone().map(|text| ["instructions".to_owned(), text]));
            table(&rows)
        })
    }

    /// Prints an inspection. Returns a failure exit code if the inspection is incomplete.
    pub(super) fn inspection(self, inspection: &Inspection) -> ExitCode {
        let printed = self.print(&inspection.to_json(), || inspection.to_text());
        if inspection.errors().is_empty() { printed } else { ExitCode::FAILURE }
    }

    pub(super) fn tools(self, tools: &[Tool]) -> ExitCode {
        let row = |tool: &Tool| [tool.name.clone(), arguments(tool), first_line(tool.description.as_deref())];
        self.print(tools, || table(&tools.iter().map(row).collect::<Vec<_>>()))
    }

    pub(super) fn resources(self, resources: &[Resource], templates: &[ResourceTemplate]) -> ExitCode {
        let all = serde_json::json!({"resources": resources, "resourceTemplates": templates});
        let rows = resources.iter().map(|one| (&one.uri, &one.name, &one.description));
        let rows = rows.chain(templates.iter().map(|one| (&one.uri_template, &one.name, &one.description)));
        let row = |(uri, name, description): (&String, &String, &Option<String>)| {
            [uri.clone(), name.clone(), first_line(description.as_deref())]
        };
        self.print(&all, || table(&rows.map(row).collect::<Vec<_>>()))
    }

    pub(super) fn prompts(self, prompts: &[Prompt]) -> ExitCode {
        let row = |prompt: &Prompt| {
            let arguments = prompt.arguments.iter();
            let arguments = arguments.map(|one| argument(&one.name, one.required == Some(true)));
            let arguments = arguments.collect::<Vec<_>>().join(" ");
            [prompt.name.clone(), arguments, first_line(prompt.description.as_deref())]
        };
        self.print(prompts, || table(&prompts.iter().map(row).collect::<Vec<_>>()))
    }

    pub(super) fn contents(self, read: &ReadResourceResult) -> ExitCode {
        self.print(read, || lines(read.contents.iter().map(|one| self.resource(one))))
    }

    pub(super) fn messages(self, result: &GetPromptResult) -> ExitCode {
        self.print(result, || {
            lines(result.messages.iter().map(|message| {
                let role = serde_json::to_value(message.role).unwrap_or_default();
                format!("{}: {}", role.as_str().unwrap_or("?"), self.block(&message.content))
            }))
        })
    }

    /// Prints the result of a tool. Returns a failure exit code if the tool failed.
    pub(super) fn result(self, result: &CallToolResult) -> ExitCode {
        let printed = self.print(result, || lines(result.content.iter().map(|one| self.block(one))));
        if result.is_error == Some(true) { ExitCode::FAILURE } else { printed }
    }

    pub(super) fn completion(self, completion: &Completion) -> ExitCode {
        self.print(completion, || lines(completion.values.iter().cloned()))
    }

    pub(super) fn task(self, task: &Task) -> ExitCode {
        self.print(task, || table(&[row_of(task.status, &task.state)]))
    }

    pub(super) fn tasks(self, tasks: &[Task]) -> ExitCode {
        let row = |task: &Task| row_of(task.status, &task.state);
        self.print(tasks, || table(&tasks.iter().map(row).collect::<Vec<_>>()))
    }

    /// Prints a task. Returns a failure exit code if the task failed.
    pub(super) fn detailed_task(self, task: &DetailedTask) -> ExitCode {
        let (status, state) = match task {
            DetailedTask::Working(task) => (TaskStatus::Working, task),
            DetailedTask::InputRequired(asking) => (TaskStatus::InputRequired, &asking.task),
            DetailedTask::Completed(completed) => (TaskStatus::Completed, &completed.task),
            DetailedTask::Failed(failed) => (TaskStatus::Failed, &failed.task),
            DetailedTask::Cancelled(task) => (TaskStatus::Cancelled, task),
        };
        let printed = self.print(task, || table(&[row_of(status, state)]));
        if status == TaskStatus::Failed { ExitCode::FAILURE } else { printed }
    }

    /// Prints one line if the notification reports a change of a list or a resource. Ignores notifications of
    /// all other kinds.
    pub(super) fn change(self, notification: &ServerNotification) -> ExitCode {
        let (method, uri) = match notification {
            ServerNotification::ToolsListChanged => ("notifications/tools/list_changed", None),
            ServerNotification::PromptsListChanged => ("notifications/prompts/list_changed", None),
            ServerNotification::ResourcesListChanged => ("notifications/resources/list_changed", None),
            ServerNotification::ResourceUpdated(updated) => {
                ("notifications/resources/updated", Some(updated.uri.as_str()))
            }
            _ => return ExitCode::SUCCESS,
        };
        write(&match (self.output, uri) {
            (McpOutput::Json, None) => format!("{}\n", serde_json::json!({"method": method})),
            (McpOutput::Json, Some(uri)) => {
                format!("{}\n", serde_json::json!({"method": method, "params": {"uri": uri}}))
            }
            (McpOutput::Text, Some(uri)) => format!("{uri}\n"),
            (McpOutput::Text, None) => {
                format!("{}\n", method.trim_start_matches("notifications/").trim_end_matches("/list_changed"))
            }
        })
    }

    fn block(self, block: &ContentBlock) -> String {
        match block {
            ContentBlock::Text(text) => text.text.clone(),
            ContentBlock::Image(image) => self.binary("image", "image", &image.mime_type, &image.data.0),
            ContentBlock::Audio(audio) => self.binary("audio", "audio", &audio.mime_type, &audio.data.0),
            ContentBlock::ResourceLink(link) => format!("[resource {}]", link.uri),
            ContentBlock::Resource(embedded) => self.resource(&embedded.resource),
        }
    }

    fn resource(self, contents: &ResourceContents) -> String {
        match contents {
            ResourceContents::Text(text) => text.text.clone(),
            ResourceContents::Blob(blob) => {
                let mime_type = blob.mime_type.as_deref().unwrap_or("no media type");
                self.binary("resource", &blob.uri, mime_type, &blob.blob.0)
            }
        }
    }

    /// Returns a description of binary content. With `--save`, also writes the content to a file.
    fn binary(self, kind: &str, name: &str, mime_type: &str, base64: &str) -> String {
        // Four characters of Base64 encode three bytes.
        let padding = base64.len() - base64.trim_end_matches('=').len();
        let size = (base64.len() / 4 * 3).saturating_sub(padding);
        let path = self.save.and_then(|directory| directory.save(kind, mime_type, base64));
        let place = path.map_or_else(String::new, |path| format!(": {}", path.display()));
        format!("[{name}, {mime_type}, {size} bytes{place}]")
    }

    fn print(self, json: &(impl Serialize + ?Sized), text: impl FnOnce() -> String) -> ExitCode {
        let text = match self.output {
            McpOutput::Json => {
                self.save_all(text);
                format!("{:#}\n", serde_json::to_value(json).unwrap_or(Value::Null))
            }
            McpOutput::Text => text(),
        };
        let written = write(&text);
        if self.save.is_some_and(SaveDirectory::has_failed) { ExitCode::FAILURE } else { written }
    }

    /// Saves binary content when the output is JSON. Prints the paths of the files to the standard error,
    /// because the standard output must contain only JSON.
    fn save_all(self, text: impl FnOnce() -> String) {
        if let Some(directory) = self.save {
            // `text` saves the files, and returns the text output, which is not needed here.
            let _ = text();
            directory.paths().iter().for_each(|path| to_stderr(&format!("saved {}", path.display())));
        }
    }
}

fn write(text: &str) -> ExitCode {
    // If the reader has closed the pipe, the exit code reports the failure to scripts.
    let text = if stdout().is_terminal() { &*shown(text) } else { text };
    let written = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row_of(status: TaskStatus, task: &WorkingTask) -> [String; 3] {
    let status = serde_json::to_value(status).unwrap_or_default();
    let message = task.status_message.clone().unwrap_or_default();
    [task.task_id.clone(), status.as_str().unwrap_or("?").to_owned(), message]
}

/// Removes control characters from `text`, so that a server cannot control the terminal. Also removes Unicode
/// characters that change the direction of text. Keeps line ends and tabs.
pub(super) fn shown(text: &str) -> String {
    let is_plain = |character: char| {
        matches!(character, '\n' | '\t')
            || !(character.is_control()
                || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'))
    };
    text.chars().filter(|character| is_plain(*character)).collect()
}

/// Prints `line` to the standard error after removing all control characters.
pub(super) fn to_stderr(line: &str) {
    // A write error is ignored, because the reader may have closed the pipe.
    let _ = writeln!(stderr(), "{}", shown(line));
}

/// Returns a callback that prints each MCP message to the standard error.
pub(super) fn tracer() -> impl Fn(Direction, &[u8]) + Send + Sync + 'static {
    let began = trace_time();
    move |direction, bytes| {
        to_stderr(&trace_line(trace_time().saturating_sub(began), direction, bytes));
    }
}

/// Returns the time for messages of `--trace`.
fn trace_time() -> Duration {
    Clock::system().now_exact()
}

fn trace_line(elapsed: Duration, direction: Direction, bytes: &[u8]) -> String {
    let arrow = match direction {
        Direction::Sent => "-->",
        Direction::Received => "<--",
    };
    let text = escaped(String::from_utf8_lossy(bytes).trim_end());
    format!("{:>10.3} ms {arrow} {text}", elapsed.as_secs_f64() * 1000.0)
}

/// Escapes control characters, so that a message cannot control the terminal.
fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.fold(String::new(), |all, text| all + text.trim_end_matches('\n') + "\n")
}

/// Returns the names of the arguments in the schema of a tool: first the required arguments, then the
/// optional arguments in brackets.
fn arguments(tool: &Tool) -> String {
    let names = tool.input_schema.get("properties").and_then(Value::as_object);
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let names = || names.into_iter().flat_map(|names| names.keys());
    let (needed, optional) =
        (names().filter(|name| is_required(name)), names().filter(|name| !is_required(name)));
    needed.chain(optional).map(|name| argument(name, is_required(name))).collect::<Vec<_>>().join(" ")
}

fn argument(name: &str, is_required: bool) -> String {
    if is_required { name.to_owned() } else { format!("[{name}]") }
}

fn first_line(text: Option<&str>) -> String {
    text.and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
}

/// Returns the rows as text with aligned columns.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let length = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let width = |column: usize| length(column).min(WIDTH_MAX);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Maximum width of a column in characters. A longer cell is printed in full, so the next cells of its row
/// are not aligned.
const WIDTH_MAX: usize = 200;

/// Directory for binary content, the paths of the files that were saved, and a flag for failures.
pub(super) struct SaveDirectory<'a> {
    directory: &'a Path,
    paths: RefCell<Vec<PathBuf>>,
    has_failed: Cell<bool>,
}

impl<'a> SaveDirectory<'a> {
    pub(super) const fn new(directory: &'a Path) -> Self {
        Self { directory, paths: RefCell::new(Vec::new()), has_failed: Cell::new(false) }
    }

    /// Decodes `base64` into a new file and returns the path of the file. If this fails, prints the error and
    /// returns `None`.
    pub(super) fn save(&self, kind: &str, mime_type: &str, base64: &str) -> Option<PathBuf> {
        let saved = save(self.directory, kind, mime_type, base64);
        let saved = saved.inspect_err(|error| {
            self.has_failed.set(true);
            let directory = self.directory.display();
            to_stderr(&format!("error: cannot save the {kind} in `{directory}`: {error}"));
        });
        let path = saved.ok()?;
        self.paths.borrow_mut().push(path.clone());
        Some(path)
    }

    /// Returns the paths of the saved files.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.paths.borrow().clone()
    }

    /// `true` if at least one file could not be saved.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }
}

/// Decodes `base64` into a new file in `directory`. Creates the directory if it does not exist, and never
/// overwrites a file.
fn save(directory: &Path, kind: &str, mime_type: &str, base64: &str) -> io::Result<PathBuf> {
    let bytes = STANDARD.decode(base64).map_err(|_| io::ErrorKind::InvalidData)?;
    fs::create_dir_all(directory)?;
    for number in 1..=FILES_MAX {
        let path = directory.join(format!("{kind}-{number}.{}", extension(mime_type)));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(&bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns the file extension for a media type, such as `png` for `image/png`. Returns `bin` if the subtype
/// is not a short alphanumeric word. Otherwise, a server could choose a path outside the directory.
fn extension(mime_type: &str) -> String {
    let subtype = mime_type.split('/').nth(1).unwrap_or_default();
    let subtype = subtype.split([';', '+']).next().unwrap_or_default().trim();
    let known = match subtype {
        "jpeg" => "jpg",
        "mpeg" => "mp3",
        "svg" => "svg",
        "plain" => "txt",
        other => other.strip_prefix("x-").unwrap_or(other),
    };
    let is_plain =
        !known.is_empty() && known.len() <= 10 && known.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { known.to_owned() } else { "bin".to_owned() }
}

/// Maximum number of files with the same kind and extension. File names contain a number from 1 to this
/// maximum.
const FILES_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_removed() {
        assert_eq!(shown("a\u{1b}[2J\r\u{9b}b\n\tc\u{202e}d"), "a[2Jb\n\tcd");
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [["a".to_owned(), "one".to_owned()], ["grün".to_owned(), String::new()]];
        assert_eq!(table(&rows), "a     one\ngrün\n");
        let long = "x".repeat(100_000);
        let rows = [["a".to_owned(), String::new()], [long.clone(), "b".to_owned()]];
        assert_eq!(table(&rows), format!("a\n{long}  b\n"));
    }
}

#[cfg(test)]
mod save_tests {
    use super::*;

    #[test]
    fn saved_files_are_numbered_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("new");
        let save = |mime_type: &str, base64: &str| save(&directory, "image", mime_type, base64);
        assert_eq!(save("image/png", "AAEC").unwrap(), directory.join("image-1.png"));
        assert_eq!(save("image/png", "AAED").unwrap(), directory.join("image-2.png"));
        assert_eq!(fs::read(directory.join("image-1.png")).unwrap(), [0, 1, 2]);
        assert!(save("image/png", "not base64").is_err());
    }

    #[test]
    fn mime_type_cannot_change_the_path_of_a_saved_file() {
        for (mime_type, expected) in [
            ("image/jpeg", "jpg"),
            ("audio/x-wav", "wav"),
            ("image/svg+xml; charset=utf-8", "svg"),
            ("../../etc/passwd", "bin"),
            ("image/../x", "bin"),
            ("", "bin"),
        ] {
            assert_eq!(extension(mime_type), expected, "{mime_type}");
        }
    }

    /// Timestamps once had the resolution of the clock tick and were up to four milliseconds old.
    #[test]
    fn trace_timestamps_are_finer_than_a_clock_tick() {
        let mut times: Vec<_> = (0..1000).map(|_| trace_time()).collect();
        times.dedup();
        assert!(times.len() > 10, "{times:?}");
    }

    #[test]
    fn traced_message_is_one_line_without_control_characters() {
        let bytes = "{\"a\":\"\u{1b}[2Jü\"}\n".as_bytes();
        let line = trace_line(Duration::from_micros(1500), Direction::Sent, bytes);
        assert_eq!(line, "     1.500 ms --> {\"a\":\"\\u{1b}[2Jü\"}");
    }
}
