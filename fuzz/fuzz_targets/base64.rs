//! libFuzzer over the target `base64`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::base64(data));
