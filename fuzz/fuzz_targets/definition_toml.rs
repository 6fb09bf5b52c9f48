//! libFuzzer over the target `definition_toml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::definition_toml(data));
