//! How the ring-3 programs are linked: at a fixed address, by the target's own linker, with no C start files.
//!
//! Static and not position-independent: no relocation is left to do at start-up, so `_start` needs no loader of its own
//! and the instructions that a measurement counts stand at the same addresses in every run.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["-no-pie", "--image-base=0x400000", "-znoexecstack", "-zseparate-code"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
