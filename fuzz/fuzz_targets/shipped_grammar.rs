//! libFuzzer over the target `shipped_grammar`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::shipped_grammar(data));
