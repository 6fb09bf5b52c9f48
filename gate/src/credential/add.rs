//! How a credential is added to a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tool_policy::definition::gate::Scheme;
use zeroize::Zeroizing;

use super::Secret;

/// Puts it in its header, marked so that nothing shows or indexes it.
pub(super) fn to(
    headers: &mut HeaderMap,
    scheme: &Scheme,
    secret: &Secret,
) -> Result<(), &'static str> {
    let value = secret.expose();
    let (name, text) = match scheme {
        Scheme::Bearer => (AUTHORIZATION, joined(b"Bearer ", value)),
        Scheme::Token => (AUTHORIZATION, joined(b"token ", value)),
        Scheme::Basic(user) => {
            let both = joined(format!("{user}:").as_bytes(), value);
            let encoded = Zeroizing::new(STANDARD.encode(&*both));
            (AUTHORIZATION, joined(b"Basic ", encoded.as_bytes()))
        }
        Scheme::Header(name) => {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_unnamed| "`scheme` names no header")?;
            (name, joined(b"", value))
        }
    };
    let mut header =
        HeaderValue::from_bytes(&text).map_err(|_unsent| "it has bytes that no header can have")?;
    header.set_sensitive(true);
    headers.insert(name, header);
    Ok(())
}

fn joined(first: &[u8], second: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut both = Zeroizing::new(Vec::with_capacity(first.len().saturating_add(second.len())));
    both.extend_from_slice(first);
    both.extend_from_slice(second);
    both
}
