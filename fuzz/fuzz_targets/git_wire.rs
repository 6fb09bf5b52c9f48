//! libFuzzer over the target `git_wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tool_broker_fuzz_targets::git_wire(data));
