#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncepoint_fuzz::gzip(data));
