//! Which certificates to trust: the system's, and those of the address's `ca`.
//!
//! People who make a certificate for a server at home (`openssl req -x509`) get one that signs itself and claims to be an authority. By the
//! book no server may present it. If the address names that very certificate, Holdall trusts the server all the same, as curl does: the
//! server has the key to the certificate that was given here, byte for byte. Its dates and names are checked like those of any other.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// TLS with these certificates. The error says what is wrong with the file.
pub fn config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Skip system certificates that cannot be read: another one may do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let given = match ca {
        Some(path) => read(path)?,
        None => Vec::new(),
    };
    for certificate in &given {
        let shown = ca.unwrap_or(Path::new("")).display();
        roots
            .add(certificate.clone())
            .map_err(|error| format!("a certificate in {shown} is of no use: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: &dyn std::fmt::Display| format!("TLS cannot be set up: {error}");
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    if given.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let usual = usual.map_err(|error| failed(&error))?;
    let verifier = Arc::new(Pinned { usual, given });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Trusts everything that is usually trusted, and servers whose own certificates were given.
#[derive(Debug)]
struct Pinned {
    usual: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match usual {
            // The certificate is an authority's, or nobody else has signed it. Dates are checked before these two.
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if self.given.iter().any(|given| given == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("the certificates in {shown}: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|_| format!("{shown} is no PEM file of certificates"))?;
    if found.is_empty() { Err(format!("{shown} holds no certificate in PEM")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_certificates_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        assert!(config(Some(&path)).unwrap_err().contains("No such file"));
        std::fs::write(&path, "hello").unwrap();
        assert!(config(Some(&path)).unwrap_err().contains("holds no certificate"));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, broken).unwrap();
        assert!(config(Some(&path)).unwrap_err().contains("of no use"));
        assert!(config(None).is_ok());
    }
}
