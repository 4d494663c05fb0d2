//! Policies as the file says them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::spanned::Spanned;
use super::{FromText, Period, TextOrTable};

/// What is asked of requests: of one kind, which is said by the key; `allow` and `deny` are one kind.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawPolicy {
    /// Clients that may ask, by address: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`, `unix`. Others are answered 403.
    pub(in super::super) allow: Option<Spanned<Vec<Spanned<String>>>>,
    /// Clients that may not, whatever `allow` says.
    pub(in super::super) deny: Option<Spanned<Vec<Spanned<String>>>>,
    /// Users with a name and a password; others are answered 401.
    pub(in super::super) basic_auth: Option<RawBasicAuth>,
    /// Clients with a key; others are answered 401.
    pub(in super::super) api_keys: Option<Spanned<RawApiKeys>>,
    /// Clients with a JSON Web Token; others are answered 401.
    pub(in super::super) jwt: Option<Spanned<RawJwt>>,
    /// Clients with a certificate, on listeners that ask for one: `true` for any that the listener trusts, or a table; others are answered 403.
    pub(in super::super) client_certificate: Option<RawClientCertificate>,
    /// How many requests there may be in a time; those beyond are answered 429.
    pub(in super::super) rate_limit: Option<RawRateLimit>,
    /// How many requests there may be at a time; those beyond are answered 503.
    pub(in super::super) concurrency: Option<RawConcurrency>,
    /// Octets of content; more is answered 413.
    pub(in super::super) content_bytes_max: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawBasicAuth {
    /// What browsers say that the password is for. Default the name of the policy.
    pub(in super::super) realm: Option<Spanned<String>>,
    /// Names, and hashes of passwords by bcrypt or Argon2.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) users: BTreeMap<Spanned<String>, Spanned<String>>,
    /// A file of lines `NAME:HASH`, as `htpasswd -B` writes it. Relative to the directory of the config.
    pub(in super::super) users_file: Option<Spanned<PathBuf>>,
    /// A field that tells the upstream who asks. Default none.
    pub(in super::super) user_field: Option<Spanned<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawApiKeys {
    /// Keys are in this field. Default `X-Api-Key`, if there is neither `bearer` nor `query`.
    pub(in super::super) header: Option<Spanned<String>>,
    /// Keys are in this parameter of the query.
    pub(in super::super) query: Option<String>,
    /// Keys are in `Authorization: Bearer`.
    #[serde(default)]
    pub(in super::super) bearer: bool,
    /// Names, and digests of keys: `sha256:` and 64 hexadecimal digits.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) keys: BTreeMap<Spanned<String>, Spanned<String>>,
    /// A file of lines `NAME:sha256:DIGEST`. Relative to the directory of the config.
    pub(in super::super) keys_file: Option<Spanned<PathBuf>>,
    /// A field that tells the upstream whose key it was. Default none.
    pub(in super::super) user_field: Option<Spanned<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawJwt {
    /// A file with the issuer's public keys: a JSON Web Key Set, or PEM. Relative to the directory of the config.
    pub(in super::super) keys_file: Option<Spanned<PathBuf>>,
    /// Where the issuer has its public keys, as a JSON Web Key Set: `https://…`. They are fetched again when they are old, and when a token names one
    /// that is not there.
    pub(in super::super) keys_url: Option<Spanned<String>>,
    /// Time until the keys at `keys_url` are fetched again. Default 10m. The server can shorten it
    /// (`Cache-Control`), not extend it.
    pub(in super::super) keys_kept_for: Option<Spanned<Period>>,
    /// Maximum age of the keys while fetching them from `keys_url` fails. After that, requests get 503.
    /// Default 24h. At least `keys_kept_for`, at most 168h. Set it lower if withdrawn keys must become
    /// invalid sooner. Risk: as long as fetching fails, withdrawn keys stay valid for this time.
    pub(in super::super) keys_age_max: Option<Spanned<Period>>,
    /// Secret that is shared with the issuer, of at least 32 bytes.
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) secret: Option<Spanned<String>>,
    /// Who must have issued the token. Default anybody who has such a key.
    pub(in super::super) issuer: Option<String>,
    /// For whom the token must be, one of these. Default anybody.
    pub(in super::super) audience: Option<Spanned<Vec<String>>>,
    /// `RS256`, `PS256`, `ES256`, `EdDSA`, `HS256`, …. Default those that the keys are for.
    pub(in super::super) algorithms: Option<Spanned<Vec<Spanned<String>>>>,
    /// How far the clocks of issuer and server may be apart. Default 30s.
    pub(in super::super) leeway: Option<Spanned<Period>>,
    /// Claims that must be there, besides `exp`. Default none.
    #[serde(default)]
    pub(in super::super) required_claims: Vec<String>,
    /// Accepted types of tokens (`typ` of the header), with or without `application/`. Default `JWT`, `JOSE`,
    /// `at+jwt`, and tokens without a type. Set `["at+jwt"]` if the issuer states the type of access tokens
    /// (RFC 9068). Risk: with other types, tokens that the issuer makes for other uses may give access.
    pub(in super::super) types: Option<Spanned<Vec<Spanned<String>>>>,
    /// `true` accepts ID tokens (OpenID Connect). Default `true`. Set `false` if clients send access tokens.
    /// Risk: with `true` and without `audience`, the ID token of any application of the issuer gives access.
    pub(in super::super) id_tokens: Option<bool>,
    /// Headers that send a claim to the upstream: `{ X-User = "sub" }`. Default none. A claim that is a list
    /// of texts is sent as a list with commas; if a text in it has a comma, the request gets 401. Risk: a
    /// claim that is one text is sent as it is, also with commas, so that an upstream that reads lists takes
    /// it for several values.
    #[serde(default)]
    pub(in super::super) fields: BTreeMap<Spanned<String>, String>,
    /// What clients are told that the token is for. Default the name of the policy.
    pub(in super::super) realm: Option<Spanned<String>>,
}

/// Any certificate, or those to which one of these applies.
pub(in super::super) enum RawClientCertificate {
    Any,
    OneOf(Box<RawCertificates>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawCertificates {
    /// Those with one of these subjects: `CN=ada,O=Example`, as access logs have it.
    pub(in super::super) subjects: Option<Spanned<Vec<Spanned<String>>>>,
    /// Those with the name of one of these hosts, beside the subject.
    pub(in super::super) dns_names: Option<Spanned<Vec<Spanned<String>>>>,
    /// Those with one of these URIs, beside the subject: `spiffe://example/service`.
    pub(in super::super) uris: Option<Spanned<Vec<Spanned<String>>>>,
    /// Those with one of these mail addresses, beside the subject.
    pub(in super::super) emails: Option<Spanned<Vec<Spanned<String>>>>,
    /// These: `sha256:` and 64 hexadecimal digits, with or without colons between pairs.
    pub(in super::super) fingerprints: Option<Spanned<Vec<Spanned<String>>>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawRateLimit {
    /// How many requests in `per`, in the long run.
    pub(in super::super) requests: Spanned<u32>,
    /// Default 1s.
    pub(in super::super) per: Option<Spanned<Period>>,
    /// How many at once. Default as many as `requests`.
    pub(in super::super) burst: Option<Spanned<u32>>,
    /// Which requests are counted together: `address`, `route`, or `{ header = "NAME" }`. Default `address`.
    pub(in super::super) by: Option<TextOrTable<RawCountBy>>,
    /// 400 to 599. Default 429.
    pub(in super::super) status: Option<Spanned<u16>>,
    /// How many addresses or values are remembered, 17 octets each. Default 65536.
    pub(in super::super) keys_max: Option<Spanned<usize>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawConcurrency {
    /// How many requests at a time.
    pub(in super::super) requests_max: Spanned<u32>,
    /// Which requests are counted together, as for `rate_limit`. Default `route`.
    pub(in super::super) by: Option<TextOrTable<RawCountBy>>,
    /// 400 to 599. Default 503.
    pub(in super::super) status: Option<Spanned<u16>>,
}

/// Which requests are counted together: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in super::super) enum RawCountBy {
    Named(RawCountByName),
    Header(RawCountByHeader),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum RawCountByName {
    Address,
    Route,
}

/// Those with the same value of a field.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawCountByHeader {
    pub(in super::super) header: Spanned<String>,
}

impl FromText for RawCountBy {
    const EXPECTED: &'static str = "`address`, `route` or a table with `header`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawCountByName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawCountByHeader::deserialize(MapAccessDeserializer::new(table)).map(Self::Header)
    }
}

impl<'de> Deserialize<'de> for RawClientCertificate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawClientCertificate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "`true` or a table with `subjects`, `dns_names`, `uris`, `emails` or `fingerprints`",
                )
            }

            fn visit_bool<E: Error>(self, is_asked_for: bool) -> Result<RawClientCertificate, E> {
                let nothing = E::invalid_value(Unexpected::Bool(false), &self);
                if is_asked_for { Ok(RawClientCertificate::Any) } else { Err(nothing) }
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawClientCertificate, A::Error> {
                let table = RawCertificates::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RawClientCertificate::OneOf(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawClientCertificate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ClientCertificate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": true }, generator.subschema_for::<RawCertificates>()] })
    }
}
