#!/usr/bin/env bash
# setup.sh: the one set-up step. Installs what is missing and nothing else; run it as often as you like.
#
#   QEMU and its firmware qboot.rom     by the system's package manager (apt, dnf, pacman or brew)
#   a C compiler with a static libc     likewise: the tests build small C programs with `gcc -static`
#   the Rust target                     by rustup; where that cannot be had, Debian's rustc-web, cargo-web,
#                                       rust-web-src and lld, which build the core library with the kernel
#
# With everything in place it says so and ends at once, without touching the network.
#
#   ./setup.sh --image                  also what the disk image's boot loader is built with: rustup's components
#                                       rust-src and llvm-tools
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

target=x86_64-unknown-none
say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

image=
for option in "$@"; do
  case $option in
    --image) image=1 ;;
    *) die "$option: unknown; the only option is --image (see the head of this file)" ;;
  esac
done

# --- what is there -------------------------------------------------------------------------------------------------
have_firmware() {
  local dir
  while IFS= read -r dir; do
    [[ -e $dir/qboot.rom ]] && return 0
  done < <(qemu-system-x86_64 -L help 2>/dev/null)
  return 1
}

# A static program must link, which needs libc.a beside the compiler.
have_static_cc() { have gcc && [[ -e $(gcc -print-file-name=libc.a) ]]; }

have_rustup_target() {
  local libdir
  libdir=$(rustc --print target-libdir --target "$target" 2>/dev/null) || return 1
  compgen -G "$libdir/libcore-*" >/dev/null
}

have_image_components() {
  local rustlib
  rustlib=$(rustc --print sysroot 2>/dev/null)/lib/rustlib || return 1
  [[ -e $rustlib/src/rust/library/core/Cargo.toml ]] && compgen -G "$rustlib/*/bin/llvm-objcopy" >/dev/null
}

have_debian_rust() {
  [[ -x /usr/bin/rustc && -x /usr/bin/cargo && -x /usr/bin/ld.lld && -e /usr/lib/rustlib/src/rust/library/core/Cargo.toml ]]
}

# --- how to install --------------------------------------------------------------------------------------------------
as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; elif have sudo; then sudo "$@"; else die "root is needed for: $*"; fi
}

manager() {
  local m
  for m in apt-get dnf pacman brew; do
    if have "$m"; then echo "$m"; return; fi
  done
  echo none
}

apt_updated=
install() {
  say "installing $* with $pm"
  case $pm in
    apt-get)
      # The package lists may be old or absent: only then, and only once, fetch them.
      if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; then
        [[ -z $apt_updated ]] || return 1
        apt_updated=1
        say "fetching the package lists"
        as_root apt-get update -q
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
      fi
      ;;
    dnf) as_root dnf install -y "$@" ;;
    pacman) as_root pacman -S --needed --noconfirm "$@" ;;
    brew) brew install "$@" ;;
    none) die "no apt-get, dnf, pacman or brew here: install by hand what provides: $*" ;;
  esac
}

pm=$(manager)

# --- QEMU and its firmware ---------------------------------------------------------------------------------------------
if have qemu-system-x86_64; then
  :
else
  case $pm in
    apt-get) install qemu-system-x86 qemu-system-data ;;
    dnf) install qemu-system-x86-core ;;
    pacman) install qemu-system-x86 ;;
    *) install qemu ;;
  esac
fi
if ! have_firmware; then
  case $pm in
    apt-get) install qemu-system-data ;;
    dnf) install qboot ;;
    pacman) install qemu-system-x86-firmware ;;
    *) install qemu ;;
  esac
  have_firmware || die "QEMU has no qboot.rom: install a QEMU of version 5 or later with its firmware"
fi
say "QEMU: $(qemu-system-x86_64 --version | head -n 1)"

# --- a C compiler that links statically ----------------------------------------------------------------------------------
if [[ $(uname -s) == Linux && $(uname -m) == x86_64 ]]; then
  if ! have_static_cc; then
    case $pm in
      apt-get) install gcc libc6-dev ;;
      dnf) install gcc glibc-static ;;
      pacman) install gcc glibc ;;
      *) install gcc ;;
    esac
    have_static_cc || die "gcc has no libc.a: install your system's static C library"
  fi
  say "C compiler: $(gcc --version | head -n 1)"
else
  say "C compiler: not needed here (the tests' C programs are built on x86-64 Linux only)"
fi

# --- the Rust target -----------------------------------------------------------------------------------------------------
if have_rustup_target; then
  say "Rust target $target: $(rustc --version)"
elif have_debian_rust; then
  say "Rust target $target: built from source by Debian's $(/usr/bin/rustc --version)"
else
  have cargo || die "no cargo here: install Rust with rustup (https://rustup.rs) and run this again"
  if have rustup && { say "adding the Rust target $target with rustup"; rustup target add "$target"; } && have_rustup_target; then
    say "Rust target $target: $(rustc --version)"
  elif [[ $pm == apt-get ]]; then
    say "rustup cannot give the target: taking Debian's compiler with its sources instead"
    install rustc-web cargo-web rust-web-src lld
    have_debian_rust || die "Debian's packages rustc-web, cargo-web, rust-web-src and lld did not give a whole toolchain"
    say "Rust target $target: built from source by Debian's $(/usr/bin/rustc --version)"
  else
    die "the Rust target $target cannot be had: try 'rustup target add $target' by hand"
  fi
fi

# --- the disk image's boot loader, where asked for ------------------------------------------------------------------------
if [[ -n $image ]]; then
  if ! have_image_components; then
    have rustup || die "the disk image needs rustup's components rust-src and llvm-tools, and there is no rustup here"
    say "adding rust-src and llvm-tools with rustup"
    rustup component add rust-src llvm-tools
    have_image_components || die "rustup did not give rust-src and llvm-tools"
  fi
  say "the disk image: rust-src and llvm-tools are there"
fi
say "ready: cargo run --release"
