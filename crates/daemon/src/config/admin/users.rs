//! The users of the admin listener: their names, roles, passwords and tokens.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{InvalidLine, InvalidPasswordHash, KeyDigest, PasswordHash, is_user_name, lines_of};

use crate::config::policies::headers::resolve_text_of_file;
use crate::config::resolver::Resolver;
use crate::config::values::{Span, Spanned};

/// The users of the admin listener. At least one user is required.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAdminAuthentication {
    /// Users by name. Default: none.
    #[serde(default)]
    pub(in crate::config) users: BTreeMap<Spanned<String>, Spanned<RawAdminUser>>,
    /// File with lines `NAME:ROLE:HASH`. `HASH` is the hash of a password, or `sha256:` and the digest of a
    /// token. A relative path starts at the directory of the config. Default: none.
    pub(in crate::config) users_file: Option<Spanned<PathBuf>>,
}

/// A user of the admin listener. Each user needs a password, a token, or both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAdminUser {
    /// `read` allows requests with GET and HEAD: the dashboard, status and metrics. `operator` allows all
    /// requests, including reloads and changes of servers.
    pub(in crate::config) role: RawAdminRole,
    /// bcrypt or Argon2 hash of the password. Clients send the name and the password with HTTP Basic. Thruway
    /// hides the hash in error messages. Default: the user has no password.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) password_hash: Option<Spanned<String>>,
    /// Digest of the token, as `sha256:` and 64 hexadecimal digits. Clients send the token in `Authorization:
    /// Bearer`. Thruway hides the digest in error messages. Risk: an attacker who knows the digest can guess
    /// a token that is not random. Default: the user has no token.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) token_digest: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawAdminRole {
    Read,
    Operator,
}

/// The users of the admin listener. Each user has a role.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct AdminAuthentication {
    pub(crate) roles: HashMap<String, AdminRole>,
    /// Names with password hashes.
    pub(crate) passwords: Vec<(String, PasswordHash)>,
    /// Names with digests of tokens. A user may have several tokens.
    pub(crate) tokens: Vec<(String, KeyDigest)>,
}

/// Role of a user of the admin listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdminRole {
    /// The user may only read.
    Read,
    /// The user may also make changes.
    Operator,
}

impl AdminRole {
    /// Returns the role as the config spells it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operator => "operator",
        }
    }
}

/// A credential in a file of users.
enum Credential {
    Password(PasswordHash),
    Token(KeyDigest),
}

pub(in crate::config) fn resolve_authentication(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawAdminAuthentication>,
) -> Option<AdminAuthentication> {
    let (before, span) = (resolver.failures.len(), raw.span());
    let RawAdminAuthentication { users, users_file } = raw.into_inner();
    let mut authentication = AdminAuthentication::default();
    for (name, user) in users {
        resolve_user(resolver, &name, user, &mut authentication);
    }
    if let Some(path) = users_file {
        read_users(resolver, &path, &mut authentication);
    }
    check_names(resolver, &span, &authentication);
    if authentication.roles.is_empty() && resolver.failures.len() == before {
        resolver.refuse_at(&span, "there are no users: set `users` or `users_file`");
    }
    (resolver.failures.len() == before).then_some(authentication)
}

fn resolve_user(
    resolver: &mut Resolver<'_>,
    name: &Spanned<String>,
    raw: Spanned<RawAdminUser>,
    authentication: &mut AdminAuthentication,
) {
    let span = raw.span();
    let RawAdminUser { role, password_hash, token_digest } = raw.into_inner();
    if !is_user_name(name.get_ref()) || name.get_ref().contains(':') {
        resolver.refuse(name, "this is not a valid user name");
    }
    if password_hash.is_none() && token_digest.is_none() {
        resolver.refuse_at(&span, "the user needs `password_hash` or `token_digest`");
    }
    let name = name.get_ref();
    authentication.roles.insert(name.clone(), role.into());
    if let Some(hash) = password_hash {
        match strong_password(hash.get_ref()) {
            Ok(hash) => authentication.passwords.push((name.clone(), hash)),
            Err(error) => resolver.refuse_with(&hash, error, PASSWORD_HINT),
        }
    }
    if let Some(digest) = token_digest {
        match digest.get_ref().parse() {
            Ok(digest) => authentication.tokens.push((name.clone(), digest)),
            Err(error) => resolver.refuse_with(&digest, error, TOKEN_HINT),
        }
    }
}

/// Adds the users of the file at `path`.
fn read_users(
    resolver: &mut Resolver<'_>,
    path: &Spanned<PathBuf>,
    authentication: &mut AdminAuthentication,
) {
    let Some(text) = resolve_text_of_file(resolver, path) else { return };
    let users = match lines_of(&text, role_and_credential) {
        Ok(users) => users,
        Err(InvalidLine { line, error }) => {
            let error = error.unwrap_or_else(|| "write `NAME:ROLE:HASH`".to_owned());
            let file = resolver.relative_to_config(path.get_ref());
            let message = format!("line {line} of `{}`: {error}", file.display());
            return resolver.refuse_with(path, message, FILE_HINT);
        }
    };
    for (name, (role, credential)) in users {
        if authentication.roles.insert(name.clone(), role).is_some_and(|other| other != role) {
            resolver.refuse(path, format!("the user `{}` has two roles", name.escape_debug()));
        }
        match credential {
            Credential::Password(hash) => authentication.passwords.push((name, hash)),
            Credential::Token(digest) => authentication.tokens.push((name, digest)),
        }
    }
}

/// Parses the hash of a password. The admin listener accepts no weak hashes.
fn strong_password(text: &str) -> Result<PasswordHash, String> {
    let hash: PasswordHash = text.parse().map_err(|error: InvalidPasswordHash| error.to_string())?;
    if hash.is_weak() {
        return Err("an MD5 hash is too weak for users of the admin listener: use bcrypt".to_owned());
    }
    Ok(hash)
}

/// Parses `ROLE:HASH`. Errors do not contain the hash.
fn role_and_credential(text: &str) -> Result<(AdminRole, Credential), String> {
    let role = match text.split_once(':') {
        Some(("read", _)) => AdminRole::Read,
        Some(("operator", _)) => AdminRole::Operator,
        _ => return Err("the role must be `read` or `operator`".to_owned()),
    };
    let hash = text.split_once(':').map_or("", |(_, hash)| hash);
    let credential = if hash.starts_with("sha256:") {
        hash.parse().map(Credential::Token).map_err(|error| error.to_string())
    } else {
        strong_password(hash).map(Credential::Password)
    };
    Ok((role, credential?))
}

/// Refuses a second password of a user, and a token that two users share.
fn check_names(resolver: &mut Resolver<'_>, span: &Span, authentication: &AdminAuthentication) {
    let mut known = HashSet::new();
    for (name, _) in authentication.passwords.iter().filter(|(name, _)| !known.insert(name)) {
        resolver.refuse_at(span, format!("the user `{}` has two passwords", name.escape_debug()));
    }
    let mut owners = HashMap::new();
    for (name, digest) in &authentication.tokens {
        if let Some(other) = owners.insert(digest, name).filter(|other| *other != name) {
            let names = [other, name].map(|name| name.escape_debug());
            resolver.refuse_at(span, format!("`{}` and `{}` have the same token", names[0], names[1]));
        }
    }
}

impl From<RawAdminRole> for AdminRole {
    fn from(raw: RawAdminRole) -> Self {
        match raw {
            RawAdminRole::Read => Self::Read,
            RawAdminRole::Operator => Self::Operator,
        }
    }
}

const PASSWORD_HINT: &str =
    "`htpasswd -nBC 10 NAME` prints `NAME:HASH`: copy only the hash, and write each `$` as `$$`";
const TOKEN_HINT: &str = "`printf %s TOKEN | sha256sum` prints the digits";
const FILE_HINT: &str = "each line is `NAME:ROLE:HASH`: `htpasswd -nBC 10 NAME` prints `NAME:HASH`, so insert the role; \
                         for a token, `printf %s TOKEN | sha256sum` prints the digits of `sha256:DIGITS`";
