//! OpenSSH's file of a private key, and signing with it.
//!
//! Must not: show a key, or know where it came from.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use zeroize::Zeroizing;

use super::strings::{Strings, put, put_number};

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// No key of the kinds below is longer as text.
const LONGEST: usize = 16 * 1024;

/// Why a text is no key to sign with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Something else.
    #[error(
        "the signing key is not an OpenSSH private key: make one with ssh-keygen -t ed25519 -N ''"
    )]
    NotOpenSsh,
    /// It needs a passphrase, which nobody is there to give.
    #[error(
        "the signing key has a passphrase: take it off with ssh-keygen -p -N '', or make another"
    )]
    Encrypted,
    /// RSA, or a key that lives in a device.
    #[error(
        "the signing key is of a kind that cannot be used here ({0}): \
         make an ed25519 key with ssh-keygen -t ed25519 -N ''"
    )]
    Kind(String),
    /// Cut off, or its halves do not belong together.
    #[error("the signing key is damaged: put the file in place anew")]
    Damaged,
    /// The machine gave no random numbers.
    #[error("the signature could not be made")]
    NotMade,
}

/// A key to sign with: not shown by anything.
pub struct Key {
    /// As SSH writes it.
    public: Vec<u8>,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(&'static str, EcdsaKeyPair),
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}

impl Key {
    /// Reads the text of a key file. What is copied on the way is wiped.
    pub fn read(text: &[u8]) -> Result<Key, KeyError> {
        let bytes = unarmored(text).ok_or(KeyError::NotOpenSsh)?;
        let mut strings = Strings(bytes.strip_prefix(MAGIC).ok_or(KeyError::NotOpenSsh)?);
        let cipher = strings.string().ok_or(KeyError::Damaged)?;
        if cipher != b"none" {
            return Err(KeyError::Encrypted);
        }
        // How a passphrase becomes a key, and with what: nothing.
        let (Some(_), Some(_), Some(1)) = (strings.string(), strings.string(), strings.number())
        else {
            return Err(KeyError::Damaged);
        };
        let public = strings.string().ok_or(KeyError::Damaged)?;
        let mut private = Strings(strings.string().ok_or(KeyError::Damaged)?);
        if private.number().ok_or(KeyError::Damaged)?
            != private.number().ok_or(KeyError::Damaged)?
        {
            return Err(KeyError::Damaged);
        }
        let kind = private.string().ok_or(KeyError::Damaged)?;
        if Strings(public).string() != Some(kind) {
            return Err(KeyError::Damaged);
        }
        let pair = match kind {
            b"ssh-ed25519" => ed25519(private).map(Pair::Ed25519),
            b"ecdsa-sha2-nistp256" => ecdsa(private, &ECDSA_P256_SHA256_FIXED_SIGNING, 32)
                .map(|pair| Pair::Ecdsa("ecdsa-sha2-nistp256", pair)),
            b"ecdsa-sha2-nistp384" => ecdsa(private, &ECDSA_P384_SHA384_FIXED_SIGNING, 48)
                .map(|pair| Pair::Ecdsa("ecdsa-sha2-nistp384", pair)),
            other => return Err(KeyError::Kind(other.escape_ascii().to_string())),
        };
        let key = Key { public: public.to_vec(), pair: pair.ok_or(KeyError::Damaged)? };
        if key.public != key.own_public() {
            return Err(KeyError::Damaged);
        }
        Ok(key)
    }

    /// The public half, as SSH writes it.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The public half as a line of `authorized_keys` or `allowed_signers` has it.
    pub fn public_line(&self) -> String {
        let kind = match &self.pair {
            Pair::Ed25519(_) => "ssh-ed25519",
            Pair::Ecdsa(kind, _) => kind,
        };
        format!("{kind} {}", STANDARD.encode(&self.public))
    }

    /// By which people know the public half: `SHA256:…`, as ssh-keygen -l has it.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest(&SHA256, &self.public)))
    }

    /// A signature over these bytes, as SSH writes it.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let mut signature = Vec::new();
        match &self.pair {
            Pair::Ed25519(pair) => {
                put(&mut signature, b"ssh-ed25519");
                put(&mut signature, pair.sign(message).as_ref());
            }
            Pair::Ecdsa(kind, pair) => {
                let made = pair.sign(&SystemRandom::new(), message);
                let made = made.map_err(|_unspecified| KeyError::NotMade)?;
                let (r, s) = made.as_ref().split_at(made.as_ref().len() / 2);
                let mut numbers = Vec::new();
                put_number(&mut numbers, r);
                put_number(&mut numbers, s);
                put(&mut signature, kind.as_bytes());
                put(&mut signature, &numbers);
            }
        }
        Ok(signature)
    }

    /// What the private half says that the public one is.
    fn own_public(&self) -> Vec<u8> {
        use ring::signature::KeyPair;
        let mut public = Vec::new();
        match &self.pair {
            Pair::Ed25519(pair) => {
                put(&mut public, b"ssh-ed25519");
                put(&mut public, pair.public_key().as_ref());
            }
            Pair::Ecdsa(kind, pair) => {
                put(&mut public, kind.as_bytes());
                put(&mut public, kind.strip_prefix("ecdsa-sha2-").unwrap_or_default().as_bytes());
                put(&mut public, pair.public_key().as_ref());
            }
        }
        public
    }
}

/// What stands between the two lines.
fn unarmored(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() > LONGEST {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let body = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let mut digits = Zeroizing::new(Vec::with_capacity(body.len()));
    digits.extend(body.bytes().filter(|byte| !byte.is_ascii_whitespace()));
    // As long as it can become: it never moves, and leaves no copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len()));
    STANDARD.decode_vec(&*digits, &mut bytes).ok()?;
    Some(bytes)
}

/// The private half: its seed, then the public half once more.
fn ed25519(mut private: Strings<'_>) -> Option<Ed25519KeyPair> {
    let (public, secret) = (private.string()?, private.string()?);
    let (seed, again) = secret.split_at_checked(32)?;
    if again != public {
        return None;
    }
    Ed25519KeyPair::from_seed_and_public_key(seed, public).ok()
}

fn ecdsa(
    mut private: Strings<'_>,
    algorithm: &'static ring::signature::EcdsaSigningAlgorithm,
    length: usize,
) -> Option<EcdsaKeyPair> {
    let (_curve, public, secret) = (private.string()?, private.string()?, private.string()?);
    let zeros = secret.iter().take_while(|byte| **byte == 0).count();
    let digits = secret.get(zeros..)?;
    let mut padded = Zeroizing::new(vec![0; length.checked_sub(digits.len())?]);
    padded.reserve_exact(digits.len());
    padded.extend_from_slice(digits);
    let random = SystemRandom::new();
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, &padded, public, &random).ok()
}
