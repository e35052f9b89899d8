//! The kernel's symbols, for its backtraces: text lines `address name`, sorted, demangled.

use anyhow::{Context, Result};
use elf::{ElfBytes, abi, endian::AnyEndian};
use std::collections::BTreeMap;

/// Reads the symbol table of a kernel's ELF image: every symbol that lies in an executable section.
///
/// Errors: no ELF, or no symbol table.
pub fn from_elf(image: &[u8]) -> Result<String> {
    let file = ElfBytes::<AnyEndian>::minimal_parse(image).context("reading the kernel's ELF image")?;
    let sections = file
        .section_headers()
        .context("the kernel's ELF image has no section headers")?;
    let (symbols, names) = file
        .symbol_table()?
        .context("the kernel's ELF image has no symbol table: it must not be stripped")?;
    let mut by_address: BTreeMap<u64, String> = BTreeMap::new();
    for symbol in symbols.iter() {
        if !matches!(symbol.st_symtype(), abi::STT_FUNC | abi::STT_NOTYPE) || symbol.st_shndx >= abi::SHN_LORESERVE {
            continue;
        }
        let Ok(section) = sections.get(usize::from(symbol.st_shndx)) else {
            continue;
        };
        let name = names.get(symbol.st_name as usize).unwrap_or("");
        if section.sh_flags & u64::from(abi::SHF_EXECINSTR) == 0 || name.is_empty() || name.starts_with(".L") {
            continue;
        }
        // Of several names for one address the first in the alphabet stands, whatever the linker's order.
        let name = format!("{:#}", rustc_demangle::demangle(name));
        by_address
            .entry(symbol.st_value)
            .and_modify(|known| {
                if name < *known {
                    known.clone_from(&name);
                }
            })
            .or_insert(name);
    }
    Ok(by_address
        .iter()
        .map(|(address, name)| format!("{address:016x} {name}\n"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own executable is an ELF file with Rust symbols in it.
    #[cfg(target_os = "linux")]
    #[test]
    fn own_symbols_are_sorted_and_demangled() {
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let text = from_elf(&image).unwrap();
        let lines: Vec<(u64, &str)> = text
            .lines()
            .map(|l| l.split_once(' ').unwrap())
            .map(|(a, n)| (u64::from_str_radix(a, 16).unwrap(), n))
            .collect();
        assert!(
            lines.iter().any(|(_, n)| n.contains("kallsyms::from_elf")),
            "no demangled name of our own"
        );
        assert!(lines.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(!lines.iter().any(|(_, n)| n.starts_with("_ZN")));
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(from_elf(b"no").is_err());
        assert!(from_elf(&[0; 4096]).is_err());
    }
}
