//! TLS by libpq's sslmode: who is trusted, and how much of a certificate is checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, RootCertStore,
    SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::libpq;
use super::options::{SslMode, TlsOptions};
use petal_engine::{EngineError, Result};

/// File in which psql keeps the certificates that it trusts.
const ROOT_FILE: &str = ".postgresql/root.crt";

/// libpq's word for the public authorities that the host trusts.
pub const PUBLIC: &str = "system";

/// The connector, and whether it verifies a server's certificate.
pub fn connector(options: &TlsOptions) -> Result<(MakeRustlsConnect, bool)> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier(options, &provider)?;
    let is_verifying = verifier.chain.is_some();
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(verifier);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| EngineError::Environment(format!("TLS cannot be set up: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let secret =
                PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            let signing = provider
                .key_provider
                .load_private_key(secret)
                .map_err(|error| unusable(key, &error))?;
            let own = CertifiedKey::new(chain, signing);
            // Whether one of version 1 belongs to its key cannot be asked; the server will refuse it.
            if let Err(error @ Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) =
                own.keys_match()
            {
                return Err(unusable(key, &error));
            }
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
        (None, None) => builder.with_no_client_auth(),
        _ => {
            return Err(EngineError::Setting(
                "DB=postgres:...: sslcert and sslkey belong together; give both".to_owned(),
            ));
        }
    };
    Ok((MakeRustlsConnect::new(config), is_verifying))
}

fn verifier(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Verifier> {
    let mode = options.mode;
    let checks_name = mode == SslMode::VerifyFull;
    // As libpq has it: where there is a root certificate, `require` verifies by it.
    let verifies = checks_name
        || mode == SslMode::VerifyCa
        || options.root.is_some()
        || (mode == SslMode::Require && own_root()?.is_some());
    if !verifies {
        return Ok(Verifier { provider: Arc::clone(provider), chain: None });
    }
    let file = root_file(options)?;
    // Anybody can have a certificate of a public authority, for another name.
    if file.is_none() && !checks_name {
        return Err(EngineError::Setting(
            "DB=postgres:...: public authorities prove no certificate whose name is not compared; \
             use sslmode=verify-full, or name your own authority's file with sslrootcert"
                .to_owned(),
        ));
    }
    let (roots, trusted) = roots(file)?;
    let strict = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| {
            EngineError::Environment(format!(
                "TLS has no root certificate to trust: {error}; name a file with sslrootcert"
            ))
        })?;
    let chain = Some(Chain { strict, trusted, checks_name });
    Ok(Verifier { provider: Arc::clone(provider), chain })
}

/// The person's own file, if it is there.
fn own_root() -> Result<Option<PathBuf>> {
    libpq::own_file(std::env::var("HOME").ok(), ROOT_FILE)
}

/// The file of the trusted authorities; none for this host's public ones.
fn root_file(options: &TlsOptions) -> Result<Option<PathBuf>> {
    match options.root.as_deref() {
        Some(PUBLIC) => Ok(None),
        Some(named) => Ok(Some(PathBuf::from(named))),
        None => own_root(),
    }
}

/// The trusted authorities, and the certificates of a file as they are.
fn roots(file: Option<PathBuf>) -> Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let (mut roots, mut trusted) = (RootCertStore::empty(), Vec::new());
    match file {
        Some(file) => {
            for certificate in certificates(&file)? {
                trusted.push(certificate.clone());
                roots.add(certificate).map_err(|error| unusable(&file, &error))?;
            }
        }
        None => {
            // Single certificates that cannot be read are no hindrance: the handshake decides.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok((roots, trusted))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> EngineError {
    EngineError::Environment(format!(
        "{}: cannot be used for TLS: {error}; name readable PEM files",
        path.display()
    ))
}

/// Checks as much as the mode says. With `prefer` and `require` no certificate is verified: anybody
/// can make one, and rustls cannot read version 1, as in PostgreSQL's manual.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None for `prefer` and `require`: encrypted, to any server that answers.
    chain: Option<Chain>,
}

/// Trust anchors for `verify-ca` and `verify-full`.
#[derive(Debug)]
struct Chain {
    strict: Arc<WebPkiServerVerifier>,
    /// The certificates of the root file.
    trusted: Vec<CertificateDer<'static>>,
    /// Only `verify-full` checks the certificate's names.
    checks_name: bool,
}

impl Chain {
    /// Whether the server shows a trusted certificate itself, one that is its own authority. psql
    /// accepts that, and rustls does not. All but this and the name was checked before the error.
    fn is_trusted_itself(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
        other.0.to_string() == AUTHORITY_AS_SERVER
            && self.trusted.iter().any(|trusted| trusted == certificate)
    }
}

/// Name of webpki's error for an authority's certificate that a server shows; petal cannot name its
/// type.
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The chain is verified before the name.
        match chain.strict.verify_server_cert(end_entity, intermediates, server_name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !chain.checks_name => Ok(ServerCertVerified::assertion()),
            Err(error) if chain.is_trusted_itself(end_entity, &error) => {
                if chain.checks_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let assertion = Ok(HandshakeSignatureValid::assertion());
        self.chain.as_ref().map_or(assertion, |chain| {
            chain.strict.verify_tls12_signature(message, certificate, signed)
        })
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let assertion = Ok(HandshakeSignatureValid::assertion());
        self.chain.as_ref().map_or(assertion, |chain| {
            chain.strict.verify_tls13_signature(message, certificate, signed)
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
