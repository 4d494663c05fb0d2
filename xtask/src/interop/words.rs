//! Command lines of the checks: words in which places are filled in.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::check::Scene;
use crate::packages;
use crate::program::repository;
use crate::server::{Server, free_addresses};

/// Values of places.
type Places<'p> = [(&'p str, String)];

/// Makes a command of words.
///
/// These places are filled in: `{url}`, `{directory}` and the values in `places`; `{stdio}`, a word of its
/// own, which becomes the command of our MCP server on stdio; `{python:LIST}`, `{npm:LIST}`, `{node:LIST}`,
/// `{go:FOLDER}` and `{rmcp}`, which are installed for it; `{file:FILE}`, a file beside this one;
/// `{npm-file:LIST:FILE}`, its copy beside packages; and `{config:FILE}`, a copy with the values in `places`.
pub(super) fn command(
    words: &[impl AsRef<str>],
    places: &Places<'_>,
    scene: &Scene<'_>,
) -> anyhow::Result<Command> {
    let words = filled(words, places, scene)?;
    let (program, arguments) = words.split_first().context("there is no command")?;
    let mut command = Command::new(program);
    // Python leaves no compiled files beside sources.
    command.args(arguments).current_dir(scene.directory).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Starts a server with its output in `NAME.log`. A server with the place `{port}` in its command or `env`
/// gets a port; any other one prints its address.
pub(super) fn start<'e>(
    words: &[impl AsRef<str>],
    env: impl IntoIterator<Item = (&'e String, &'e String)>,
    places: &Places<'_>,
    name: &str,
    scene: &Scene<'_>,
) -> anyhow::Result<Server> {
    let [address] = free_addresses()?;
    let places = [places, &[("port", address.port().to_string())]].concat();
    let mut command = command(words, &places, scene)?;
    let mut has_port = words.iter().any(|word| word.as_ref().contains("{port}"));
    for (key, value) in env {
        has_port |= value.contains("{port}");
        command.env(key, text(value, &places, scene)?);
    }
    let log = scene.directory.join(name).with_extension("log");
    if has_port {
        return Server::start_at(address, command, &log, scene.stop);
    }
    Server::start(command, &log, scene.stop)
}

/// Returns the words of a command.
pub(super) fn filled(
    words: &[impl AsRef<str>],
    places: &Places<'_>,
    scene: &Scene<'_>,
) -> anyhow::Result<Vec<String>> {
    let mut filled = Vec::new();
    for word in words {
        match word.as_ref() {
            "{stdio}" => filled.extend(scene.stdio()),
            word => filled.push(text(word, places, scene)?),
        }
    }
    Ok(filled)
}

/// Fills in the places of a text.
pub(super) fn text(template: &str, places: &Places<'_>, scene: &Scene<'_>) -> anyhow::Result<String> {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, (place, after))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(&match places.iter().find(|(name, _)| *name == place) {
            Some((_, value)) => value.clone(),
            None => value(place, places, scene)?,
        });
        rest = after;
    }
    Ok(text + rest)
}

fn value(place: &str, places: &Places<'_>, scene: &Scene<'_>) -> anyhow::Result<String> {
    let folder = repository().join(FOLDER);
    let (kind, rest) = place.split_once(':').unwrap_or((place, ""));
    let path = match kind {
        "url" => return Ok(scene.url.clone()),
        "directory" => fs::canonicalize(scene.directory)?,
        "python" => packages::python(rest, scene.stop)?,
        "npm" => packages::npm(rest, scene.stop)?,
        "node" => packages::node(rest, scene.stop)?,
        "rmcp" => packages::rmcp(scene.stop)?,
        "go" => packages::go(&format!("{FOLDER}/{rest}"), &["./..."], scene.stop)?,
        "file" => folder.join(rest),
        "npm-file" => {
            let (list, file) = rest.split_once(':').context("a list and a file are needed")?;
            let copy = packages::npm(list, scene.stop)?.join(name_of(file));
            fs::copy(folder.join(file), &copy)?;
            copy
        }
        "config" => {
            let copy = scene.directory.join(name_of(rest));
            fs::write(&copy, replaced(&fs::read_to_string(folder.join(rest))?, places))?;
            copy
        }
        _ => bail!("`{{{place}}}` is no place"),
    };
    path.into_os_string().into_string().ok().context("a path is not UTF-8")
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Fills in places of a text that may have other braces.
pub(super) fn replaced(template: &str, places: &Places<'_>) -> String {
    let replace = |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{name}}}"), value);
    places.iter().fold(template.to_owned(), replace)
}

/// The folder of the files that places name.
const FOLDER: &str = "xtask/src/interop";
