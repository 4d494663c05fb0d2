//! Checks header names, realms and file paths, for the keys of several policies.

use std::path::PathBuf;

use thruway_gateway::{FieldRewrite, InvalidRewrite};
use thruway_server::{FieldName, FieldValue};

use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// Returns the name of a header that a policy sets. Refuses headers that the gateway sets or removes.
pub(in crate::config) fn resolve_user_field(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<String>>,
) -> Option<String> {
    let before = resolver.failures.len();
    if let Some(name) = &raw
        && FieldRewrite::default().remove(name.get_ref()) == Err(InvalidRewrite::FieldOfGateway)
        && !is_framing(name.get_ref())
    {
        resolver.refuse(name, "the gateway sets this header: use another name");
    }
    if resolver.failures.len() == before { resolve_own_field(resolver, raw) } else { None }
}

/// Returns the name of a header. Refuses headers that frame a message or select its destination.
pub(in crate::config) fn resolve_own_field(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<String>>,
) -> Option<String> {
    let name = raw?;
    if let Err(error) = FieldName::new(name.get_ref().as_bytes()) {
        resolver.refuse(&name, error);
    } else if is_framing(name.get_ref()) {
        resolver.refuse(&name, "this header belongs to the connection or the body: use another name");
    }
    Some(name.into_inner())
}

pub(in crate::config) fn resolve_realm(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<String>>,
) -> Option<String> {
    let realm = raw?;
    if let Err(error) = FieldValue::new(realm.get_ref().as_bytes()) {
        resolver.refuse(&realm, error);
    }
    Some(realm.into_inner())
}

pub(in crate::config) fn resolve_text_of_file(
    resolver: &mut Resolver<'_>,
    path: &Spanned<PathBuf>,
) -> Option<String> {
    let place = resolver.relative_to_config(path.get_ref());
    let text = std::fs::read_to_string(&place);
    text.map_err(|error| resolver.refuse(path, format!("cannot read `{}`: {error}", place.display()))).ok()
}

fn is_framing(name: &str) -> bool {
    FRAMING.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// Headers of the message framing or of the destination. Policies cannot use these headers.
const FRAMING: [&str; 8] =
    ["Connection", "Content-Length", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"];
