//! Signatures by a key that no tool has.
//!
//! git asks `gpg.ssh.program` for a signature over a commit or a tag. That program is
//! ours and has no key: it asks here. What is to be signed is read whole, understood
//! strictly, decided on by the definition's rules, and signed as `ssh-keygen -Y sign
//! -n git` would.
//!
//! - `service`  one request: read, understand, decide, sign
//! - `environment`  what makes git ask here
//! - `object`   a commit or a tag, and nothing else
//! - `key`      OpenSSH's file of a private key
//! - `sshsig`   the format of a signature
//! - `strings`  how SSH writes strings
//!
//! Must not: sign in another namespace than git's, or what is not a commit or a tag;
//! keep a key longer than for one signature.

mod environment;
mod key;
mod object;
mod service;
mod sshsig;
mod strings;

pub use environment::{BELL, configure};
pub use key::{Key, KeyError};
pub use object::{Object, ObjectError};
pub use service::{
    Answered, Grant, KeySource, KeyText, LARGEST, NAMESPACE, NO_GATE, SIGN, request, serve,
    understand,
};
pub use sshsig::armored;
