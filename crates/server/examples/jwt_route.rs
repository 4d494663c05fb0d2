//! A route that requires a JSON Web Token (RFC 7519), sent as a bearer token (RFC 6750).
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
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thruway_jwt::{InvalidJwtKeys, JwtKeys, JwtRules};
use thruway_server::{IntoResponse, Rejection, Request, Response, Router, Server, StatusCode, with_state};

/// The claims of a token. The claims are signed but not encrypted, so anyone with the token can read them.
#[derive(Serialize)]
pub(crate) struct Claims {
    /// The user.
    pub(crate) sub: String,
    /// The time when the token expires, in seconds since the Unix epoch.
    pub(crate) exp: u64,
}

#[derive(Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

/// Signs and verifies tokens.
struct Tokens {
    signing_key: EncodingKey,
    keys: JwtKeys,
    rules: JwtRules,
}

pub(crate) fn app(secret: &str) -> Result<Router, InvalidJwtKeys> {
    let tokens = Arc::new(Tokens {
        signing_key: EncodingKey::from_secret(secret.as_bytes()),
        keys: JwtKeys::from_secret(secret)?,
        rules: JwtRules {
            // The server accepts only this algorithm, even if the token names another one (RFC 8725 §3.1).
            algorithms: vec![Algorithm::HS256],
            required_claims: vec!["sub".to_owned()],
            leeway: Duration::ZERO,
            ..JwtRules::default()
        },
    });
    Ok(Router::new().post("/token", with_state(&tokens, log_in)).get("/me", with_state(&tokens, me)))
}

fn log_in(tokens: &Tokens, request: &Request<'_>) -> Result<Response, Rejection> {
    let Credentials { name, password } = request.json()?;
    // A real server compares the password with a salted hash that is slow to compute, such as Argon2.
    if (&*name, &*password) != ("ada", "enchantress") {
        return Err(Rejection::new(StatusCode::FORBIDDEN, "the name or the password is wrong"));
    }
    let claims = Claims { sub: name, exp: get_current_timestamp() + LIFETIME_SECONDS };
    Ok(match encode(&Header::new(Algorithm::HS256), &claims, &tokens.signing_key) {
        Ok(token) => Response::text(token).with_field("Cache-Control", "no-store"),
        Err(error) => {
            tracing::error!(%error, "a token cannot be signed");
            Response::new(StatusCode::INTERNAL_SERVER_ERROR)
        }
    })
}

fn me(tokens: &Tokens, request: &Request<'_>) -> Result<Response, Unauthorized> {
    let user = tokens.authenticate(request)?;
    Ok(Response::json(&json!({ "name": user })).with_field("Cache-Control", "no-store"))
}

impl Tokens {
    /// Returns the user in the token of the request.
    fn authenticate(&self, request: &Request<'_>) -> Result<String, Unauthorized> {
        let authorization = request.field("authorization").and_then(|value| value.as_str());
        let token = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .ok_or(Unauthorized::NoToken)?;
        let now = Duration::from_secs(get_current_timestamp());
        let claims = self.rules.verify(token.as_bytes(), &self.keys, now);
        let claims = claims.map_err(|_| Unauthorized::Invalid)?;
        claims.get("sub").and_then(|sub| sub.as_str()).map(str::to_owned).ok_or(Unauthorized::Invalid)
    }
}

/// Reason to reject a request.
enum Unauthorized {
    Invalid,
    NoToken,
}

impl IntoResponse for Unauthorized {
    /// Returns 401 with a challenge (RFC 9110 §11.6.1). The challenge names an error only if the request
    /// contains a token (RFC 6750 §3.1).
    fn into_response(self) -> Response {
        let challenge = match self {
            Self::Invalid => {
                r#"Bearer error="invalid_token", error_description="the token is invalid or has expired""#
            }
            Self::NoToken => "Bearer",
        };
        Response::new(StatusCode::UNAUTHORIZED).with_field("WWW-Authenticate", challenge)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let secret =
        std::env::var("JWT_SECRET").map_err(|_| "set `JWT_SECRET` to a secret of at least 32 bytes")?;
    Ok(Server::new(app(&secret)?).listen("127.0.0.1:8080")?.run()?)
}

const LIFETIME_SECONDS: u64 = 15 * 60;
