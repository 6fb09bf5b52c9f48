//! libFuzzer over the target `json_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::json_reader(data));
