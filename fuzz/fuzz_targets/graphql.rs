//! libFuzzer over the target `graphql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::graphql(data));
