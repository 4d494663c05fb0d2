//! A route for those who have a token: JSON Web Tokens (RFC 7519), sent as bearer tokens (RFC 6750).
//!
//! ```sh
//! JWT_SECRET=$(head -c 32 /dev/urandom | base64) cargo run --release --example jwt_route
//! curl -i http://127.0.0.1:8080/me                                # 401 with `WWW-Authenticate: Bearer`
//! token=$(curl -s http://127.0.0.1:8080/token --json '{"name": "ada", "password": "enchantress"}')
//! curl -i http://127.0.0.1:8080/me --oauth2-bearer "$token"
//! curl -i http://127.0.0.1:8080/me --oauth2-bearer "${token}x"    # 401: the signature is wrong
//! ```

use std::error::Error;
use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode, get_current_timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thruway_server::{IntoResponse, Rejection, Request, Response, Router, Server, StatusCode, with_state};

/// What a token says. Whoever has it can read it.
#[derive(Deserialize, Serialize)]
pub(crate) struct Claims {
    /// Who it was given to.
    pub(crate) sub: String,
    /// Until when it is good, in seconds since 1970.
    pub(crate) exp: u64,
}

#[derive(Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

/// Makes and checks tokens.
struct Tokens {
    signs: EncodingKey,
    verifies: DecodingKey,
    validation: Validation,
}

pub(crate) fn app(secret: &[u8]) -> Router {
    // One algorithm and no other: which one is not for the token to say (RFC 8725 §3.1).
    let mut validation = Validation::new(Algorithm::HS256);
    validation.leeway = 0;
    let tokens = Arc::new(Tokens {
        signs: EncodingKey::from_secret(secret),
        verifies: DecodingKey::from_secret(secret),
        validation,
    });
    Router::new().post("/token", with_state(&tokens, log_in)).get("/me", with_state(&tokens, me))
}

fn log_in(tokens: &Tokens, request: &Request<'_>) -> Result<Response, Rejection> {
    let Credentials { name, password } = request.json()?;
    // A real server compares with a salted hash that is slow to compute, such as Argon2.
    if (&*name, &*password) != ("ada", "enchantress") {
        return Err(Rejection::new(StatusCode::FORBIDDEN, "name or password are wrong"));
    }
    let claims = Claims { sub: name, exp: get_current_timestamp() + LIFETIME_SECONDS };
    Ok(match encode(&Header::new(Algorithm::HS256), &claims, &tokens.signs) {
        Ok(token) => Response::text(token).with_field("Cache-Control", "no-store"),
        Err(error) => {
            tracing::error!(%error, "a token cannot be signed");
            Response::new(StatusCode::INTERNAL_SERVER_ERROR)
        }
    })
}

fn me(tokens: &Tokens, request: &Request<'_>) -> Result<Response, Unauthorized> {
    let claims = tokens.authenticate(request)?;
    Ok(Response::json(&json!({ "name": claims.sub })).with_field("Cache-Control", "no-store"))
}

impl Tokens {
    /// The claims of the request's token.
    fn authenticate(&self, request: &Request<'_>) -> Result<Claims, Unauthorized> {
        let authorization = request.field("authorization").and_then(|value| value.as_str());
        let token = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .ok_or(Unauthorized::NoToken)?;
        match decode::<Claims>(token, &self.verifies, &self.validation) {
            // `decode` ignores critical extensions, none of which is supported here (RFC 7515 §4.1.11).
            Ok(token) if token.header.crit.is_some() => Err(Unauthorized::Invalid),
            Ok(token) => Ok(token.claims),
            Err(error) if matches!(error.kind(), ErrorKind::ExpiredSignature) => Err(Unauthorized::Expired),
            Err(_) => Err(Unauthorized::Invalid),
        }
    }
}

/// Why nobody is let in.
enum Unauthorized {
    Expired,
    Invalid,
    NoToken,
}

impl IntoResponse for Unauthorized {
    /// 401 with a challenge (RFC 9110 §11.6.1). It names an error only to those who sent a token (RFC 6750
    /// §3.1).
    fn into_response(self) -> Response {
        let challenge = match self {
            Self::Expired => r#"Bearer error="invalid_token", error_description="the token has expired""#,
            Self::Invalid => r#"Bearer error="invalid_token", error_description="the token is invalid""#,
            Self::NoToken => "Bearer",
        };
        Response::new(StatusCode::UNAUTHORIZED).with_field("WWW-Authenticate", challenge)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let secret =
        std::env::var("JWT_SECRET").map_err(|_| "`JWT_SECRET` should hold the secret of the server")?;
    Ok(Server::new(app(secret.as_bytes())).listen("127.0.0.1:8080")?.run()?)
}

const LIFETIME_SECONDS: u64 = 15 * 60;
