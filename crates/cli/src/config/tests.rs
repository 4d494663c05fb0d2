//! The example is true: it names every key, and the defaults it shows are those of the server.

use super::failure::Source;
use super::*;

const EXAMPLE: &str = include_str!("../../examples/serve.toml");

fn resolved(text: &str) -> Result<Config, Failure> {
    let source = Source { path: PathBuf::from("serve.toml"), text: text.to_owned() };
    let raw = raw::parse(&source)?;
    resolve::resolve(raw, source)
}

#[test]
fn the_example_shows_the_defaults_of_the_server() {
    let config = resolved(EXAMPLE).unwrap();
    assert_eq!(format!("{:?}", config.server), format!("{:?}", thruway_server::Config::default()));
}

#[test]
fn what_the_example_comments_out_can_be_said() {
    let text: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line))
        .collect();
    let config = resolved(&text.join("\n")).unwrap();
    assert_eq!((config.workers, config.connections_max), (Some(4), Some(100_000)));
}

#[test]
fn the_example_names_every_key() {
    for section in [
        "",
        "[[listeners]]\n",
        "[[routes]]\n",
        "[[routes]]\nanswer.",
        "[[routes]]\nfiles.",
        "[[routes]]\nredirect.",
        "[upstreams.a]\n",
    ]
    .into_iter()
    .chain(["[[routes]]\nanswer.fields = [{ x = 1 }]\n", "[access_log]\n", "[limits]\n", "[timeouts]\n"])
    {
        let failure = resolved(&format!("{section}x = 1")).err().unwrap().to_string();
        let keys = failure.split("possible here: ").nth(1).unwrap_or_else(|| panic!("{failure}"));
        for key in keys.trim().split(", ").map(|key| key.trim_matches('`')) {
            let is_named =
                [format!("{key} ="), format!("[{key}]"), format!("[{key}."), format!("[routes.{key}]")]
                    .iter()
                    .any(|name| EXAMPLE.contains(name));
            assert!(is_named, "{key} of {section}");
        }
    }
}
