//! TLS as the file says it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::spanned::Spanned;

/// How TLS is spoken with clients.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawListenerTls {
    /// At least one. A client gets that which has the name it asks for, or a wildcard for it, or else the first.
    pub(in super::super) certificates: Spanned<Vec<Spanned<RawListenerCertificate>>>,
    /// `1.2` or `1.3`: the lowest version that is spoken. Default `1.2`.
    #[serde(default)]
    pub(in super::super) min_version: RawTlsVersion,
    /// Whether clients are given what the issuers of certificates say of their revocation (OCSP), fetched from whom the certificates name, if they
    /// do. Default false.
    #[serde(default)]
    pub(in super::super) ocsp_stapling: bool,
    /// Whether clients are given tickets to resume sessions with, under keys that change. Default true.
    pub(in super::super) tickets: Option<bool>,
    /// Sessions that are kept for clients without tickets; 0 for none. Default 10000.
    pub(in super::super) sessions_max: Option<Spanned<usize>>,
    /// Whether clients show certificates. Default no.
    pub(in super::super) client_certificates: Option<RawClientCertificates>,
    /// What answers say in `Strict-Transport-Security`, as `max-age=31536000`. Default nothing.
    pub(in super::super) strict_transport_security: Option<Spanned<String>>,
}

/// A certificate of a listener: `chain` and `key`, or `acme`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawListenerCertificate {
    /// A file with the certificate, and behind it those between it and a root, in PEM. It is read again when it changes, as are the others.
    pub(in super::super) chain: Option<PathBuf>,
    /// A file with the private key, in PEM.
    pub(in super::super) key: Option<PathBuf>,
    /// A file with what the issuer says of its revocation (an OCSP response in DER), for clients, as long as it holds. The chain must have the issuer.
    /// Default nothing.
    pub(in super::super) ocsp: Option<PathBuf>,
    /// Names of hosts: the certificate for them is ordered, as `[acme]` says, and renewed.
    pub(in super::super) acme: Option<Spanned<Vec<Spanned<String>>>>,
}

/// A certificate, and its key. All files are in PEM but that of OCSP, and are read again when they change.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawCertificate {
    /// The certificate, and behind it those between it and a root.
    pub(in super::super) chain: PathBuf,
    /// The private key.
    pub(in super::super) key: PathBuf,
    /// What the issuer says of its revocation (an OCSP response in DER), for clients. Default nothing.
    pub(in super::super) ocsp: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub(in super::super) enum RawTlsVersion {
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// Which certificates clients show.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawClientCertificates {
    /// Files with the certificates of those who are trusted to issue them.
    pub(in super::super) roots: Spanned<Vec<PathBuf>>,
    /// Whether clients without one are refused. Default true.
    pub(in super::super) required: Option<bool>,
}

/// How TLS is spoken with the servers of an upstream: `true`, or a table.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawUpstreamTls {
    /// Files with the certificates of those who are trusted to say who a server is. Default those whom this system trusts.
    pub(in super::super) roots: Option<Spanned<Vec<PathBuf>>>,
    /// The name that certificates must have. Default what `servers` calls each server.
    pub(in super::super) server_name: Option<Spanned<String>>,
    /// The certificate that is shown to servers that ask for one. Default none.
    pub(in super::super) certificate: Option<RawCertificate>,
    /// Whether servers are asked who they are. Default true.
    pub(in super::super) verify: Option<bool>,
    /// `1.2` or `1.3`: the lowest version that is spoken. Default `1.2`.
    #[serde(default)]
    pub(in super::super) min_version: RawTlsVersion,
}

/// The same, or whether it is spoken at all.
pub(in super::super) enum RawUpstreamTlsOrNot {
    No,
    Yes(Box<RawUpstreamTls>),
}

impl<'de> Deserialize<'de> for RawUpstreamTlsOrNot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawUpstreamTlsOrNot;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or a table")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawUpstreamTlsOrNot, E> {
                Ok(if is_wanted { RawUpstreamTlsOrNot::Yes(Box::default()) } else { RawUpstreamTlsOrNot::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawUpstreamTlsOrNot, A::Error> {
                let tls = RawUpstreamTls::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RawUpstreamTlsOrNot::Yes(Box::new(tls)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawUpstreamTlsOrNot {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UpstreamTls".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<RawUpstreamTls>()] })
    }
}
