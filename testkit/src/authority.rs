//! Certificate authority that issues certificates for tests.

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

/// A certificate authority (CA) with a temporary directory for certificates. Dropping it removes the
/// directory.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl CertificateAuthority {
    /// Creates an authority with a new self-signed root certificate.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("generating a key should succeed");
        let root = params.self_signed(&key).expect("signing a certificate should succeed");
        let directory = TempDir::new().expect("the temporary directory should be writable");
        fs::write(directory.path().join("root.pem"), pem("CERTIFICATE", root.der()))
            .expect("the temporary directory should be writable");
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// Returns the path of the root certificate (PEM).
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// Issues a server certificate for `names`. Writes `FILE.pem` and `FILE.key`, and replaces existing
    /// files.
    pub fn issue(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.issue_with(file, names, |_| {})
    }

    /// Like [`issue`](Self::issue), but the certificate has expired.
    pub fn issue_expired(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.issue_with(file, names, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        })
    }

    /// Issues a client certificate with the common name `name`.
    pub fn issue_client(&self, file: &str, name: &str) -> CertificateFiles {
        self.issue_with(file, &[], |params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// Issues a client certificate with the common name `name` and one alternative name of each kind:
    /// `NAME.example`, `NAME@example.com`, `spiffe://example.com/NAME` and `192.0.2.1`.
    ///
    /// # Panics
    /// Panics if `name` is not ASCII.
    pub fn issue_named_client(&self, file: &str, name: &str) -> CertificateFiles {
        let text = |text: String| text.try_into().expect("the name should be ASCII");
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

    /// Issues a certificate for `names` and the P-256 public key of a certificate signing request. Returns
    /// the chain, which includes the root certificate, in PEM.
    ///
    /// # Panics
    /// Panics if a name is invalid.
    pub fn issue_for_key(
        &self,
        key: Vec<u8>,
        names: &[&str],
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names should be valid");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (not_before.into(), not_after.into());
        let certificate =
            params.signed_by(&PublicKey(key), &self.issuer).expect("signing a certificate should succeed");
        let root = fs::read_to_string(self.root()).expect("the file was written before");
        pem("CERTIFICATE", certificate.der()) + &root
    }

    /// Returns the public key of the certificate in `files`, in the form that
    /// [`issue_for_key`](Self::issue_for_key) expects.
    ///
    /// # Panics
    /// Panics if `files` contain no certificate.
    pub fn public_key_of(&self, files: &CertificateFiles) -> Vec<u8> {
        let contents = files.contents().expect("the files were written before");
        let certificate =
            Certificate::from_der(&contents.chain[0]).expect("the file should contain a certificate");
        certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes().to_vec()
    }

    /// Like [`issue`](Self::issue), but the certificate contains `url`, the URL of an OCSP responder, and the
    /// chain file includes the root certificate.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    pub fn issue_with_responder(&self, file: &str, names: &[&str], url: &str) -> CertificateFiles {
        let files =
            self.issue_with(file, names, |params| params.custom_extensions = vec![ocsp_url_extension(url)]);
        let chain = fs::read_to_string(&files.chain).expect("the file was written before");
        let root = fs::read_to_string(self.root()).expect("the file was written before");
        fs::write(&files.chain, chain + &root).expect("the temporary directory should be writable");
        files
    }

    /// Returns the root certificate.
    pub(crate) fn certificate(&self) -> Certificate {
        let root = CertificateDer::from_pem_file(self.root()).expect("the file was written before");
        Certificate::from_der(&root).expect("the file should contain a certificate")
    }

    /// Signs `message` with the authority's key.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.issuer.key().sign(message).expect("signing should succeed")
    }

    /// Returns the certificate and the signing function of a delegated OCSP responder (RFC 6960 §4.2.2.2).
    pub(crate) fn responder(&self) -> Signer {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
        let key = KeyPair::generate().expect("generating a key should succeed");
        let certificate = params.signed_by(&key, &self.issuer).expect("signing a certificate should succeed");
        let certificate =
            Certificate::from_der(certificate.der()).expect("the file should contain a certificate");
        (certificate, Box::new(move |message| key.sign(message).expect("signing should succeed")))
    }

    fn issue_with(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateFiles {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names should be valid");
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let key = KeyPair::generate().expect("generating a key should succeed");
        let certificate = params.signed_by(&key, &self.issuer).expect("signing a certificate should succeed");
        let path = |end: &str| self.directory.path().join(format!("{file}{end}"));
        let files = CertificateFiles { chain: path(".pem"), key: path(".key"), ocsp: None };
        fs::write(&files.chain, pem("CERTIFICATE", certificate.der()))
            .expect("the temporary directory should be writable");
        fs::write(&files.key, pem("PRIVATE KEY", &key.serialize_der()))
            .expect("the temporary directory should be writable");
        files
    }
}

/// Returns the extension with the URL of the OCSP responder (authority information access, RFC 5280
/// §4.2.2.1).
fn ocsp_url_extension(url: &str) -> CustomExtension {
    let url = GeneralName::UniformResourceIdentifier(Ia5String::new(url).expect("the name should be ASCII"));
    let description = AccessDescription { access_method: OCSP, access_location: url };
    let content = AuthorityInfoAccessSyntax(vec![description]).to_der().expect("encoding should succeed");
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content)
}

/// `id-ad-ocsp`.
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");

/// A P-256 public key.
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

/// A certificate and a function that signs with its key.
pub(crate) type Signer = (Certificate, Box<dyn Fn(&[u8]) -> Vec<u8>>);

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}
