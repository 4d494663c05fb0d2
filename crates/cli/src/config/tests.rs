//! The example is true: it names every key, and the defaults it shows are those of the server.

mod upstreams;

use super::failure::Source;
use super::*;

use thruway_gateway::ServerConfig;

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
fn the_example_shows_the_defaults_of_upstreams() {
    let config = resolved(EXAMPLE).unwrap();
    let shown = &config.upstreams["backend"];
    let servers = shown.servers.iter().map(|server| ServerConfig::new(server.address.clone())).collect();
    let expected = UpstreamConfig { servers, ..UpstreamConfig::new("backend", []) };
    assert_eq!(format!("{shown:?}"), format!("{expected:?}"));
}

#[test]
fn what_the_example_comments_out_can_be_said() {
    let text: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line))
        // Said in another way there.
        .filter(|line| *line != "balance = \"round_robin\"")
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
        "[upstreams.a]\n",
        "[upstreams.a]\nbalance.",
        "[upstreams.a]\nsticky.",
        "[upstreams.a]\ncheck.",
        "[upstreams.a]\nejection.",
        "[upstreams.a]\nqueue.",
        "[upstreams.a]\nretry_budget.",
    ]
    .into_iter()
    .chain(["[upstreams.a]\nservers = [{ x = 1 }]\n"])
    .chain(["[[routes]]\nanswer.fields = [{ x = 1 }]\n", "[access_log]\n", "[limits]\n", "[timeouts]\n"])
    {
        let failure = resolved(&format!("{section}x = 1")).err().unwrap().to_string();
        let keys = failure.split("possible here: ").nth(1).unwrap_or_else(|| panic!("{failure}"));
        for key in keys.trim().split(", ").map(|key| key.trim_matches('`')) {
            let mut names = ["{} =", "[{}]", "[{}.", "[routes.{}]", "[upstreams.backend.{}]"].into_iter();
            let is_named = names.any(|name| EXAMPLE.contains(&name.replace("{}", key)));
            assert!(is_named, "{key} of {section}");
        }
    }
}
