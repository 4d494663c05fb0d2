//! Makes the command lines of the checks, and fills in their placeholders.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::check::Checker;
use crate::packages;
use crate::program::repository;
use crate::server::{Server, free_addresses};

/// Names and values of placeholders.
type Placeholders<'p> = [(&'p str, String)];

/// Makes a command from its words.
///
/// Placeholders: `{url}`, `{directory}` and the names in `placeholders`. The word `{stdio}` becomes the
/// command of our MCP server on stdio. For `{python:LIST}`, `{npm:LIST}`, `{go:FOLDER}` and `{rmcp}`, this
/// function installs packages, and the placeholder becomes the directory of their programs. `{node:LIST}`
/// becomes the path of the Node.js of a list. `{file:FILE}` becomes the path of a file in this folder.
/// `{npm-file:LIST:FILE}` becomes the path of a copy of this file beside npm packages. `{config:FILE}`
/// becomes the path of a copy in which `placeholders` are filled in.
pub(super) fn command(
    words: &[impl AsRef<str>],
    placeholders: &Placeholders<'_>,
    checker: &Checker<'_>,
) -> anyhow::Result<Command> {
    let words = filled(words, placeholders, checker)?;
    let (program, arguments) = words.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    // Keeps Python from writing compiled files into the source folders.
    command.args(arguments).current_dir(checker.directory).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Starts a server with its output in `NAME.log`. The placeholder `{port}` in its command or `env` becomes a
/// free port. A server without this placeholder must print its address.
pub(super) fn start<'e>(
    words: &[impl AsRef<str>],
    env: impl IntoIterator<Item = (&'e String, &'e String)>,
    placeholders: &Placeholders<'_>,
    name: &str,
    checker: &Checker<'_>,
) -> anyhow::Result<Server> {
    let [address] = free_addresses()?;
    let placeholders = [placeholders, &[("port", address.port().to_string())]].concat();
    let mut command = command(words, &placeholders, checker)?;
    let mut has_port = words.iter().any(|word| word.as_ref().contains("{port}"));
    for (key, value) in env {
        has_port |= value.contains("{port}");
        command.env(key, text(value, &placeholders, checker)?);
    }
    let log = checker.directory.join(name).with_extension("log");
    if has_port {
        return Server::start_at(address, command, &log, checker.stop);
    }
    Server::start(command, &log, checker.stop)
}

/// Fills in the placeholders of the words of a command.
pub(super) fn filled(
    words: &[impl AsRef<str>],
    placeholders: &Placeholders<'_>,
    checker: &Checker<'_>,
) -> anyhow::Result<Vec<String>> {
    let mut filled = Vec::new();
    for word in words {
        match word.as_ref() {
            "{stdio}" => filled.extend(checker.stdio()),
            word => filled.push(text(word, placeholders, checker)?),
        }
    }
    Ok(filled)
}

/// Fills in the placeholders of a text.
pub(super) fn text(
    template: &str,
    placeholders: &Placeholders<'_>,
    checker: &Checker<'_>,
) -> anyhow::Result<String> {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, (placeholder, after))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(&match placeholders.iter().find(|(name, _)| *name == placeholder) {
            Some((_, value)) => value.clone(),
            None => value(placeholder, placeholders, checker)?,
        });
        rest = after;
    }
    Ok(text + rest)
}

fn value(
    placeholder: &str,
    placeholders: &Placeholders<'_>,
    checker: &Checker<'_>,
) -> anyhow::Result<String> {
    let folder = repository().join(FOLDER);
    let (kind, rest) = placeholder.split_once(':').unwrap_or((placeholder, ""));
    let path = match kind {
        "url" => return Ok(checker.url.clone()),
        "directory" => fs::canonicalize(checker.directory)?,
        "python" => packages::python(rest, checker.stop)?,
        "npm" => packages::npm(rest, checker.stop)?,
        "node" => packages::node(rest, checker.stop)?,
        "rmcp" => packages::rmcp(checker.stop)?,
        "go" => packages::go(&format!("{FOLDER}/{rest}"), &["./..."], checker.stop)?,
        "file" => folder.join(rest),
        "npm-file" => {
            let (list, file) =
                rest.split_once(':').context("the placeholder `npm-file` needs a list and a file")?;
            let copy = packages::npm(list, checker.stop)?.join(name_of(file));
            fs::copy(folder.join(file), &copy)?;
            copy
        }
        "config" => {
            let copy = checker.directory.join(name_of(rest));
            fs::write(&copy, replaced(&fs::read_to_string(folder.join(rest))?, placeholders))?;
            copy
        }
        _ => bail!("unknown placeholder `{{{placeholder}}}`"),
    };
    path.into_os_string().into_string().ok().context("a path is not UTF-8")
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Fills in only the given placeholders, because the text may contain other braces.
pub(super) fn replaced(template: &str, placeholders: &Placeholders<'_>) -> String {
    let replace = |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{name}}}"), value);
    placeholders.iter().fold(template.to_owned(), replace)
}

/// The folder with the files that placeholders name.
const FOLDER: &str = "xtask/src/interop";
