//! JSON that was just written, as a value that is handed on as it is.
//!
//! Owns: that it is not read once more to be believed: of a long answer that takes as long
//! as to make it.

use serde_json::value::RawValue;

/// What `tool_files::Target::json` gave.
pub(crate) fn written(json: String) -> Box<RawValue> {
    debug_assert!(RawValue::from_string(json.clone()).is_ok());
    // SAFETY: it is one whole JSON text without blanks around it: serde_json wrote it, or
    // `tool_files::read`, whose strings are tested to be serde_json's, byte for byte; and in
    // builds with assertions, as the tests have, each is read.
    unsafe { RawValue::from_string_unchecked(json) }
}
