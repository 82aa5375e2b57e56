//! Encrypted connections: what is verified of the server, and what is shown to it.

use std::fmt;
use std::sync::Arc;

use runledger_core::{Code, Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What of the server's certificate is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing, as libpq's `prefer` and `require`: it keeps listeners out, not a server that poses as another.
    #[default]
    Nothing,
    /// That an authority we trust has signed it.
    Authority,
    /// That, and that it is of the host we asked for.
    AuthorityAndName,
}

/// The files and rules of encrypted connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    pub(crate) verify: Verify,
    /// The authorities, in PEM; the system's where none is given.
    pub(crate) root_cert: Option<String>,
    /// Our certificate, in PEM.
    pub(crate) cert: Option<String>,
    /// The key of our certificate, in PEM.
    pub(crate) key: Option<String>,
}

impl Tls {
    /// Whether what is given fits together.
    pub(crate) fn check(&self) -> Result<()> {
        match (&self.cert, &self.key) {
            (Some(_), None) => Err(Error::invalid("sslkey", "a certificate needs its key")),
            (None, Some(_)) => Err(Error::invalid("sslcert", "a key needs its certificate")),
            _ => Ok(()),
        }
    }

    /// Reads the files.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(ring::default_provider());
        // As libpq: authorities that are given are held to, whatever the mode.
        let verify = match self.verify {
            Verify::Nothing if self.root_cert.is_some() => Verify::Authority,
            other => other,
        };
        let roots = if verify == Verify::Nothing { None } else { Some(self.roots()?) };
        let inner = roots.map(|roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build());
        let inner = inner.transpose().map_err(|_| Error::invalid("sslrootcert", "no authority to trust is in it"))?;
        let verifier = Verifier { inner, with_name: verify == Verify::AuthorityAndName, provider: Arc::clone(&provider) };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(Code::Internal, format!("no version of TLS can be spoken: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates("sslcert", cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("sslkey", key, &e))?;
                builder.with_client_auth_cert(chain, key).map_err(|_| Error::invalid("sslkey", "the key does not fit the certificate"))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.root_cert {
            Some(path) => {
                for certificate in certificates("sslrootcert", path)? {
                    roots.add(certificate).map_err(|_| Error::invalid("sslrootcert", "a certificate in it can't be read"))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        Ok(roots)
    }
}

fn certificates(option: &str, path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let certificates = read.map_err(|e| unreadable(option, path, &e))?;
    if certificates.is_empty() {
        return Err(Error::invalid(option, "the file holds no certificate"));
    }
    Ok(certificates)
}

fn unreadable(option: &str, path: &str, e: &rustls::pki_types::pem::Error) -> Error {
    Error::new(Code::Io, format!("{option}: {path} can't be read: {e}")).with_path(path)
}

/// Judges the server's certificate as the mode says.
struct Verifier {
    /// `None` when nothing is verified.
    inner: Option<Arc<WebPkiServerVerifier>>,
    with_name: bool,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("with_name", &self.with_name).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: everything else held.
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }))
                if !self.with_name =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
