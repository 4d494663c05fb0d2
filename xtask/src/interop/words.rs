//! Command lines of the checks: words in which places are filled in.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::check::Scene;
use crate::packages;
use crate::program::repository;

/// Makes a command of words.
///
/// These places are filled in: `{url}`, `{directory}`, `{body_bytes}` and the values in `places`;
/// `{stdio}`, a word of its own, which becomes the command of our MCP server on stdio; `{python:LIST}`,
/// `{python-programs:LIST}`, `{npm:LIST}`, `{go-module:FOLDER:NAME}` and `{rmcp}`, which are installed for it;
/// `{text:FILE}`, `{file:FILE}` and `{go:FILE}`, the text, a copy and the program of a file beside this one;
/// and `{npm-file:LIST:FILE}`, a copy beside packages.
pub(super) fn command(
    words: &[String],
    places: &[(&str, String)],
    scene: &Scene<'_>,
) -> anyhow::Result<Command> {
    let words = filled(words, places, scene)?;
    let (program, arguments) = words.split_first().context("there is no command")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(scene.directory);
    Ok(command)
}

/// Returns the words of a command.
pub(super) fn filled(
    words: &[String],
    places: &[(&str, String)],
    scene: &Scene<'_>,
) -> anyhow::Result<Vec<String>> {
    let mut filled = Vec::new();
    for word in words {
        match word.as_str() {
            "{stdio}" => filled.extend(scene.stdio()),
            word => filled.push(text(word, places, scene)?),
        }
    }
    Ok(filled)
}

/// Fills in the places of a text.
pub(super) fn text(template: &str, places: &[(&str, String)], scene: &Scene<'_>) -> anyhow::Result<String> {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, (place, after))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(&match places.iter().find(|(name, _)| *name == place) {
            Some((_, value)) => value.clone(),
            None => value(place, scene)?,
        });
        rest = after;
    }
    Ok(text + rest)
}

fn value(place: &str, scene: &Scene<'_>) -> anyhow::Result<String> {
    let in_words = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let copy = |file: &str, directory: &Path| {
        let path = directory.join(Path::new(file).file_name().context("a file has a name")?);
        fs::copy(source(file), &path)?;
        in_words(&path)
    };
    match place.split_once(':').unwrap_or((place, "")) {
        ("url", _) => Ok(scene.url.clone()),
        ("directory", _) => in_words(&fs::canonicalize(scene.directory)?),
        ("body_bytes", _) => Ok(scene.content()?.len().to_string()),
        ("python", list) => in_words(&packages::python(list, scene.stop)?),
        ("python-programs", list) => {
            let python = packages::python(list, scene.stop)?;
            in_words(python.parent().context("the interpreter is in a directory")?)
        }
        ("npm", list) => in_words(&packages::npm(list, scene.stop)?),
        ("rmcp", _) => in_words(&packages::rmcp(scene.stop)?),
        ("text", file) => Ok(fs::read_to_string(source(file))?),
        ("file", file) => copy(file, scene.directory),
        ("go", file) => in_words(&packages::go_file(&source(file), scene.directory, scene.stop)?),
        ("go-module", folder_and_name) => {
            let (folder, name) = folder_and_name.split_once(':').context("a folder and a name are needed")?;
            in_words(&packages::go_module(&format!("{FOLDER}/{folder}"), name, &["./..."], scene.stop)?)
        }
        ("npm-file", list_and_file) => {
            let (list, file) = list_and_file.split_once(':').context("a list and a file are needed")?;
            copy(file, &packages::npm(list, scene.stop)?)
        }
        _ => bail!("`{{{place}}}` is no place"),
    }
}

fn source(file: &str) -> std::path::PathBuf {
    repository().join(FOLDER).join(file)
}

/// The folder of the files that places name.
const FOLDER: &str = "xtask/src/interop";
