//! Gets the token for a server that requires a token. The token comes from `--bearer`, or from an OAuth
//! login.

use std::fs;
use std::io::{self, IsTerminal, stderr};
use std::process::{Command, Stdio};

use thruway_mcp_sdk::McpClientBuilder;
use thruway_mcp_sdk::oauth::{LoginFuture, LoopbackRedirect, OAuth, RegisteredClient, UserAgent};

use super::print;
use super::tokens::TokenFile;
use crate::args::McpLoginArgs;
use crate::config::Failure;

/// Source of the tokens that a server requires.
pub(crate) enum Login {
    /// Value of the `Authorization` header, made from the token of `--bearer`.
    Bearer(String),
    /// An OAuth login, which starts when the server requires a token. All MCP clients of this process share
    /// the login.
    OAuth(Box<OAuth>),
}

impl Login {
    pub(crate) fn of(args: &McpLoginArgs) -> Result<Self, Failure> {
        match &args.bearer {
            Some(token) => Ok(Self::Bearer(format!("Bearer {}", secret(token)?))),
            None => Ok(Self::OAuth(Box::new(oauth(args)?))),
        }
    }

    /// Adds the login to `builder`. The client then sends the token of `--bearer`, or logs in when the server
    /// requires a token.
    pub(crate) fn prepare(&self, builder: McpClientBuilder) -> McpClientBuilder {
        match self {
            Self::Bearer(authorization) => builder.field("Authorization", authorization),
            Self::OAuth(oauth) => builder.oauth(OAuth::clone(oauth)),
        }
    }
}

/// Returns the error for a login without a terminal.
pub(crate) fn no_terminal() -> Failure {
    Failure::new("the server requires a token, but there is no terminal for a login")
        .with_hint("pass `--login` to log in with a browser, or pass a token with `--bearer`")
}

fn oauth(args: &McpLoginArgs) -> Result<OAuth, Failure> {
    let oauth = match client(args)? {
        Some(client) if args.client_credentials => OAuth::client_credentials(client),
        Some(client) => login(args).client(client),
        None => match &args.client_id {
            Some(url) => login(args).metadata_document(url),
            None => login(args),
        },
    };
    let oauth = match TokenFile::of_user() {
        Some(file) => oauth.store(file),
        None => oauth,
    };
    Ok(oauth.scopes(args.scope.iter().flat_map(|scopes| scopes.split(' '))))
}

fn login(args: &McpLoginArgs) -> OAuth {
    if args.login || stderr().is_terminal() { OAuth::login(redirect(args)) } else { OAuth::login(NoLogin) }
}

/// A user agent that refuses every login. The client can still use and renew stored tokens.
struct NoLogin;

impl UserAgent for NoLogin {
    fn redirect_uri(&self) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn log_in<'a>(&'a self, _: &'a str) -> LoginFuture<'a> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

/// Returns the OAuth client that the operator registered at an authorization server. Returns `None` if
/// `--client-id` is not set. An `https` URL in `--client-id` is the URL of a client id metadata document,
/// unless `--client-secret` or `--issuer` is set. In this case, also returns `None`.
///
/// # Errors
/// Returns an error if the file with the secret is unreadable, or if `--client-secret` is used without
/// `--issuer`. Without an issuer, the MCP server could choose the authorization server that gets the secret.
fn client(args: &McpLoginArgs) -> Result<Option<RegisteredClient>, Failure> {
    let is_known = args.client_secret.is_some() || args.issuer.is_some();
    let is_registered = |id: &&String| is_known || !id.starts_with("https://");
    let Some(id) = args.client_id.as_ref().filter(is_registered) else { return Ok(None) };
    let client = match &args.client_secret {
        Some(_) if args.issuer.is_none() => return Err(issuer_is_missing()),
        Some(text) => RegisteredClient::with_secret(id, secret(text)?),
        None => RegisteredClient::public(id),
    };
    Ok(Some(match &args.issuer {
        Some(issuer) => client.of_issuer(issuer),
        None => client,
    }))
}

fn issuer_is_missing() -> Failure {
    Failure::new(
        "cannot use `--client-secret` without `--issuer`: the MCP server names the authorization server, and could get the secret",
    )
    .with_hint("pass `--issuer URL`, the authorization server that issued the secret")
}

fn redirect(args: &McpLoginArgs) -> LoopbackRedirect {
    let has_user = args.login || stderr().is_terminal();
    LoopbackRedirect::new(move |url| {
        print::to_stderr(&format!("to log in, open {url}"));
        if has_user {
            open(url);
        }
    })
    .port(args.callback_port)
}

/// Opens `url` in a browser if the machine has a display. Without a display, the user can open the printed
/// URL.
fn open(url: &str) {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_display {
        let null = Stdio::null;
        // An error is ignored, because the user can open the printed URL.
        let _ = Command::new("xdg-open").arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
    }
}

/// Returns `text`, or the content of the file if `text` is `@FILE`. A file is safer, because other users of
/// this machine can see the command line.
fn secret(text: &str) -> Result<String, Failure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read =
        fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read `{path}`: {error}")))?;
    Ok(read.trim_end_matches(['\r', '\n']).to_owned())
}
