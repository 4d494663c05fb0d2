//! Token exchange (RFC 8693): a token for one server is exchanged for a token or an assertion for another
//! server.

use super::error::OAuthError;
use super::token::{Form, TokenResponse};

/// A token that is exchanged, and its type.
pub(super) type Subject = (String, &'static str);

/// Returns the form for the exchange of `subject` for an access token.
pub(super) fn access_token_form(subject: Subject) -> Form {
    form(ACCESS_TOKEN, subject)
}

/// Returns the form for the exchange of `subject` for an assertion to the authorization server `audience`.
/// The assertion is about the use of the MCP server `resource` (identity assertion JWT authorization
/// grant).
pub(super) fn id_jag_form(audience: &str, resource: &str, subject: Subject) -> Form {
    let mut form = form(ID_JAG, subject);
    form.push(("audience", audience.to_owned()));
    form.push(("resource", resource.to_owned()));
    form
}

fn form(requested: &str, (token, token_type): Subject) -> Form {
    vec![
        ("grant_type", TOKEN_EXCHANGE.to_owned()),
        ("requested_token_type", requested.to_owned()),
        ("subject_token", token),
        ("subject_token_type", token_type.to_owned()),
    ]
}

/// Returns the assertion in the response to an [`id_jag_form`].
pub(super) fn id_jag_of(response: TokenResponse) -> Result<String, OAuthError> {
    let is_grant = response.issued_token_type.as_deref() == Some(ID_JAG);
    is_grant.then_some(response.access_token).ok_or(OAuthError::TokenInvalid)
}

/// Returns `true` if the response to an [`access_token_form`] contains an access token. Some servers do not
/// report the type.
pub(super) fn is_access_token(response: &TokenResponse) -> bool {
    response.issued_token_type.as_deref().is_none_or(|issued| [ACCESS_TOKEN, JWT].contains(&issued))
}

pub(super) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
pub(super) const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
pub(super) const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
