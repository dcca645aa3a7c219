#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncepoint_fuzz::c14n_stream(data));
