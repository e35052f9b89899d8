//! `image KERNEL RAMDISK OUT`: writes a disk image that a BIOS machine boots. Called by `tollgate image`.
#![forbid(unsafe_code)]

use bootloader::DiskImageBuilder;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [kernel, ramdisk, out] = paths.as_slice() else {
        eprintln!("usage: image KERNEL RAMDISK OUT");
        return ExitCode::from(2);
    };
    let mut builder = DiskImageBuilder::new(kernel.clone());
    builder.set_ramdisk(ramdisk.clone());
    match builder.create_bios_image(out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
