//! Certificates of a test's own, made by the openssl program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority, and a certificate of one host.
pub(crate) struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// For these names, or addresses.
    pub(crate) fn of(names: &[&str]) -> Certificates {
        let dir = tempfile::tempdir().unwrap();
        let made = Certificates { dir };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        let alternatives: Vec<String> = names
            .iter()
            .map(|name| match name.parse::<std::net::IpAddr>() {
                Ok(_) => format!("IP:{name}"),
                Err(_) => format!("DNS:{name}"),
            })
            .collect();
        std::fs::write(
            made.path("extensions"),
            format!("subjectAltName={}\nbasicConstraints=CA:FALSE\n", alternatives.join(",")),
        )
        .unwrap();
        let mut request = vec!["req", "-x509", "-subj", "/CN=test ca", "-days", "2"];
        request.extend(["-keyout", "ca.key", "-out", "ca.pem"].iter().chain(&key));
        made.openssl(&request);
        let mut request = vec!["req", "-subj", "/CN=test host", "-keyout", "key.pem"];
        request.extend(["-out", "request.pem"].iter().chain(&key));
        made.openssl(&request);
        let sign = "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2";
        let mut sign: Vec<&str> = sign.split(' ').collect();
        sign.extend(["-extfile", "extensions", "-out", "cert.pem"]);
        made.openssl(&sign);
        made
    }

    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl").args(args).current_dir(&self.dir).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", super::text(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The authority's own, for who is to trust it.
    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A server's settings, with these protocols.
    pub(crate) fn server(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let provider = rustls::crypto::ring::default_provider();
        self.config(provider, protocols)
    }

    /// The same with what this provider has.
    pub(crate) fn by(&self, provider: CryptoProvider) -> Arc<ServerConfig> {
        self.config(provider, &[])
    }

    fn config(&self, provider: CryptoProvider, protocols: &[&str]) -> Arc<ServerConfig> {
        let pem = |path: &Path| CertificateDer::pem_file_iter(path).unwrap();
        let chain = pem(&self.path("cert.pem")).map(|one| one.unwrap()).collect();
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
