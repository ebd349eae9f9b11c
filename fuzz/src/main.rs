//! One target under libFuzzer; `HOLDALL_FUZZ` names it. `just fuzz TARGET` runs it.

#![no_main]

use holdall_fuzz::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("HOLDALL_FUZZ").expect("HOLDALL_FUZZ names a target");
    holdall_fuzz::find(&name).expect("HOLDALL_FUZZ names one of the targets in fuzz/src/lib.rs")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
