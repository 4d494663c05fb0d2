//! Certificates for tests, from an authority of their own.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;
use thruway_net::tls::CertificateFiles;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5String, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AccessDescription, AuthorityInfoAccessSyntax};

/// An authority, and the directory in which its certificates are. It goes with this.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    /// Creates a new, untrusted authority.
    ///
    /// # Panics
    /// There is no room for files.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("keys can be made");
        let root = params.self_signed(&key).expect("a certificate can be made");
        let directory = TempDir::new().expect("there is room for files");
        fs::write(directory.path().join("root.pem"), pem("CERTIFICATE", root.der()))
            .expect("there is room for files");
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// The file with its own certificate.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// A certificate for `names`, in files that begin with `file`; they are replaced if they are there.
    pub fn issue(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.issue_with(file, names, |_| {})
    }

    /// Issues an expired certificate.
    pub fn issue_expired(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.issue_with(file, names, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        })
    }

    /// A certificate for a client of this name.
    pub fn issue_client(&self, file: &str, name: &str) -> CertificateFiles {
        self.issue_with(file, &[], |params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// Issues a client certificate with a subject and names of each kind: `NAME.example`, `NAME@example.com`,
    /// `spiffe://example.com/NAME` and `192.0.2.1`.
    ///
    /// # Panics
    /// The name is none.
    pub fn issue_named_client(&self, file: &str, name: &str) -> CertificateFiles {
        let text = |text: String| text.try_into().expect("it is ASCII");
        self.issue_with(file, &[], |params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.subject_alt_names = vec![
                SanType::DnsName(text(format!("{name}.example"))),
                SanType::Rfc822Name(text(format!("{name}@example.com"))),
                SanType::URI(text(format!("spiffe://example.com/{name}"))),
                SanType::IpAddress(IpAddr::from([192, 0, 2, 1])),
            ];
        })
    }

    /// Issues a certificate for `names` and a P-256 public key from a signing request. Returns the chain with
    /// the authority's certificate, in PEM.
    ///
    /// # Panics
    /// A name is none.
    pub fn issue_for_key(
        &self,
        key: Vec<u8>,
        names: &[&str],
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names are good");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (not_before.into(), not_after.into());
        let certificate = params.signed_by(&PublicKey(key), &self.issuer).expect("a certificate can be made");
        let root = fs::read_to_string(self.root()).expect("it was written");
        pem("CERTIFICATE", certificate.der()) + &root
    }

    /// The public key in a certificate that was issued here, as [`issue_for_key`](Self::issue_for_key) takes
    /// it.
    ///
    /// # Panics
    /// It is no certificate.
    pub fn public_key_of(&self, files: &CertificateFiles) -> Vec<u8> {
        let contents = files.contents().expect("it was issued here");
        let certificate = Certificate::from_der(&contents.chain[0]).expect("it is a certificate");
        certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes().to_vec()
    }

    /// A certificate that names the URL of a responder of OCSP, with that of the authority behind it.
    ///
    /// # Panics
    /// There is no room for files.
    pub fn issue_with_responder(&self, file: &str, names: &[&str], url: &str) -> CertificateFiles {
        let files = self.issue_with(file, names, |params| params.custom_extensions = vec![access(url)]);
        let chain = fs::read_to_string(&files.chain).expect("it was written");
        let root = fs::read_to_string(self.root()).expect("it was written");
        fs::write(&files.chain, chain + &root).expect("there is room for files");
        files
    }

    /// Its own certificate.
    pub(crate) fn certificate(&self) -> Certificate {
        let root = CertificateDer::from_pem_file(self.root()).expect("it was written");
        Certificate::from_der(&root).expect("it is a certificate")
    }

    /// Signs `message`.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.issuer.key().sign(message).expect("keys can sign")
    }

    /// Returns a delegated OCSP responder (RFC 6960 §4.2.2.2).
    pub(crate) fn responder(&self) -> Signer {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made");
        let certificate = Certificate::from_der(certificate.der()).expect("it is a certificate");
        (certificate, Box::new(move |message| key.sign(message).expect("keys can sign")))
    }

    fn issue_with(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateFiles {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names are good");
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made");
        let path = |end: &str| self.directory.path().join(format!("{file}{end}"));
        let files = CertificateFiles { chain: path(".pem"), key: path(".key"), ocsp: None };
        fs::write(&files.chain, pem("CERTIFICATE", certificate.der())).expect("there is room for files");
        fs::write(&files.key, pem("PRIVATE KEY", &key.serialize_der())).expect("there is room for files");
        files
    }
}

/// Returns the extension with the URL of the OCSP responder (RFC 5280 §4.2.2.1).
fn access(url: &str) -> CustomExtension {
    let url = GeneralName::UniformResourceIdentifier(Ia5String::new(url).expect("it is ASCII"));
    let description = AccessDescription { access_method: OCSP, access_location: url };
    let content = AuthorityInfoAccessSyntax(vec![description]).to_der().expect("it can be encoded");
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content)
}

/// id-ad-ocsp.
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");

/// A public key on P-256.
struct PublicKey(Vec<u8>);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// A certificate, and what signs for it.
pub(crate) type Signer = (Certificate, Box<dyn Fn(&[u8]) -> Vec<u8>>);

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
