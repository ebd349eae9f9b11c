//! Whom to believe: the system's certificates, and those of the address's `ca`.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// TLS with those certificates. The error says what is wrong with the file.
pub(super) fn config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // What the system has and cannot be read is left out: another may do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        add(&mut roots, path)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("the certificates in {shown}: {error}"))?;
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| format!("{shown} is no PEM file of certificates"))?;
        roots.add(certificate).map_err(|error| format!("a certificate in {shown} is of no use: {error}"))?;
        found += 1;
    }
    if found == 0 { Err(format!("{shown} holds no certificate in PEM")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_certificates_are_refused() {
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
