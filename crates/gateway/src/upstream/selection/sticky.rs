//! Sticky cookies, which send the requests of a client to the same server each time.
//!
//! A cookie contains a token, which identifies the server. The token is a keyed hash of the server's address,
//! so it does not reveal the address. The token does not authenticate the client. If no server has the token,
//! the gateway ignores the cookie.

use std::sync::OnceLock;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use thruway_client::UpstreamAddr;
use thruway_net::random_bytes;
use thruway_server::Request;

/// Settings of sticky cookies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sticky {
    /// The name of the cookie.
    pub cookie: String,
    /// Secret for computing the tokens. Gateways with the same secret accept each other's cookies. With a
    /// configured secret, a gateway accepts its own cookies after a restart. Default: a random secret for
    /// each process.
    pub secret: Option<String>,
}

impl Sticky {
    /// Returns settings for sticky sessions with this cookie, and a random secret.
    pub fn new(cookie: impl Into<String>) -> Self {
        Self { cookie: cookie.into(), secret: None }
    }

    /// Returns the token of the server at `address`.
    pub(crate) fn token_of(&self, upstream: &str, address: &UpstreamAddr) -> u64 {
        let key = self.secret.as_ref().map_or(process_key(), |secret| secret.as_bytes());
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts a key of any length");
        mac.update(format!("{upstream}\n{address}").as_bytes());
        let bytes = mac.finalize().into_bytes();
        bytes.iter().take(8).fold(0, |token, byte| token << 8 | u64::from(*byte))
    }

    /// Returns the token in the sticky cookie of `request`.
    pub(crate) fn token_in(&self, request: &Request<'_>) -> Option<u64> {
        parse(request.cookie(&self.cookie)?.value())
    }

    /// Returns the values of `Set-Cookie` for a cookie with `token`.
    pub(crate) fn set_cookie(&self, token: u64) -> SetCookie {
        let plain = format!("{}={token:016x}; Path=/; HttpOnly; SameSite=Lax", self.cookie);
        SetCookie { secure: format!("{plain}; Secure"), plain }
    }
}

/// The values of `Set-Cookie` for the sticky cookie of one server.
#[derive(Debug)]
pub(crate) struct SetCookie {
    /// The cookie for `http`. Browsers reject cookies with the attribute `Secure` over `http`.
    plain: String,
    /// The cookie for `https`. A client never sends this cookie over `http` (RFC 6265 §5.4).
    secure: String,
}

impl SetCookie {
    /// Returns the value of `Set-Cookie` for a client. `is_https` is `true` if the client uses `https`.
    pub(crate) fn value(&self, is_https: bool) -> &str {
        if is_https { &self.secure } else { &self.plain }
    }
}

fn parse(value: &str) -> Option<u64> {
    let is_token = value.len() == 16 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_token.then(|| u64::from_str_radix(value, 16).ok()).flatten()
}

/// Returns a random key, which stays the same until the process ends, so that cookies stay valid after a
/// reload.
fn process_key() -> &'static [u8] {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    KEY.get_or_init(random_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(secret: Option<&str>, upstream: &str, address: &str) -> u64 {
        let sticky = Sticky { secret: secret.map(str::to_owned), ..Sticky::new("c") };
        sticky.token_of(upstream, &address.parse().unwrap())
    }

    #[test]
    fn sticky_token_depends_on_address_upstream_and_secret() {
        let (one, other) = ("127.0.0.1:1", "127.0.0.1:2");
        assert_eq!(token(None, "a", one), token(None, "a", one));
        assert_eq!(token(Some("s"), "a", one), 0x5025_b7c8_97dc_90c1);
        let tokens = [
            token(None, "a", one),
            token(None, "a", other),
            token(None, "b", one),
            token(Some("s"), "a", one),
            token(Some("t"), "a", one),
        ];
        for (place, token) in tokens.iter().enumerate() {
            assert!(!tokens[place + 1..].contains(token));
        }
    }

    #[test]
    fn sticky_cookie_value_is_parsed_strictly() {
        let set = Sticky::new("c").set_cookie(0xab);
        assert_eq!(set.value(false), "c=00000000000000ab; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(set.value(true), "c=00000000000000ab; Path=/; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(parse("00000000000000ab"), Some(0xab));
        for other in ["", "ab", "+0000000000000ab", "g0000000000000ab", "00000000000000abc"] {
            assert_eq!(parse(other), None);
        }
    }
}
