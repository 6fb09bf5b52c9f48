//! Who is trusted: the system's certificates, and a gate's own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Route, UpstreamError};

const SHAKING: Duration = Duration::from_secs(10);

/// Who is trusted; read once, a gate's own again when its file changes.
#[derive(Default)]
pub(super) struct Trust {
    kept: Mutex<HashMap<Option<PathBuf>, Kept>>,
}

#[derive(Clone)]
struct Kept {
    changed: Option<SystemTime>,
    config: Arc<ClientConfig>,
}

impl Trust {
    /// Speaks TLS on a connection to the route's host.
    pub(super) async fn shake(
        &self,
        route: &Route,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, UpstreamError> {
        let untrusted = |why: String| UpstreamError::Untrusted { host: route.host.clone(), why };
        let config = self.config(route.ca.as_deref())?;
        let name = route.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|error| untrusted(error.to_string()))?;
        match timeout(SHAKING, TlsConnector::from(config).connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(untrusted(error.to_string())),
            Err(_elapsed) => Err(UpstreamError::Slow { host: route.host.clone() }),
        }
    }

    fn config(&self, ca: Option<&Path>) -> Result<Arc<ClientConfig>, UpstreamError> {
        let changed = ca.and_then(|path| path.metadata().ok()?.modified().ok());
        let key = ca.map(Path::to_owned);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get(&key).filter(|found| found.changed == changed) {
            return Ok(Arc::clone(&found.config));
        }
        let config = Arc::new(build(ca)?);
        kept.insert(key, Kept { changed, config: Arc::clone(&config) });
        Ok(config)
    }
}

fn build(ca: Option<&Path>) -> Result<ClientConfig, UpstreamError> {
    let mut roots = RootCertStore::empty();
    // Some of a system's are too old to be read; what is left is what there is.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let bad = |why: String| UpstreamError::Certificates { path: path.to_owned(), why };
        let mut some = false;
        for certificate in
            CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?
        {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            some = true;
        }
        if !some {
            return Err(bad("it has none".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| UpstreamError::Untrusted {
            host: String::new(),
            why: error.to_string(),
        })?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
