//! How the kernel is linked: by its own script, at a fixed address.
//!
//! The target x86_64-unknown-none already sets the code model, soft float and the linker; only position independence
//! must be undone. The flags stand here and not in .cargo/config.toml, so that no build depends on the folder it was
//! called from.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=link.ld");
    for argument in [
        "-no-pie",
        "-znorelro",
        "-zmax-page-size=4096",
        &format!("-T{directory}/link.ld"),
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
