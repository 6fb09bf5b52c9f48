//! How the client is linked: no start files, no libc, static, laid out by
//! link.ld. The arguments go through the default linker driver (`cc`) and are
//! understood by GNU ld and by lld.

use std::path::Path;

#[allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=link.ld");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("link.ld");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none,-z,norelro,-z,noseparate-code,--no-eh-frame-hdr,--gc-sections,-s",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
}
