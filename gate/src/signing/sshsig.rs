//! The format of a signature: OpenSSH's PROTOCOL.sshsig, version 1.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA512, digest};

use super::key::{Key, KeyError};
use super::service::NAMESPACE;
use super::strings::put;

const MAGIC: &[u8] = b"SSHSIG";
const HASH: &[u8] = b"sha512";
/// As ssh-keygen breaks its lines.
const LINE: usize = 70;

/// A signature over these bytes in git's namespace, as git puts it into an object.
/// There is no other namespace here: a signature is good for nothing but git.
pub fn armored(key: &Key, message: &[u8]) -> Result<String, KeyError> {
    let mut signed = MAGIC.to_vec();
    put(&mut signed, NAMESPACE);
    put(&mut signed, b"");
    put(&mut signed, HASH);
    put(&mut signed, digest(&SHA512, message).as_ref());
    let signature = key.sign(&signed)?;
    let mut whole = MAGIC.to_vec();
    whole.extend_from_slice(&1_u32.to_be_bytes());
    for part in [key.public(), NAMESPACE, b"", HASH, &signature] {
        put(&mut whole, part);
    }
    let digits = STANDARD.encode(whole);
    let mut text = String::from("-----BEGIN SSH SIGNATURE-----\n");
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str("-----END SSH SIGNATURE-----\n");
    Ok(text)
}
