//! How the shared library is linked.

/// What programs that were linked to it ask for at run time: the name changes when the ABI breaks.
const SONAME: &str = "liblanesum.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // Threads that watch peers run its code until their communicator's end: `dlclose` must not take it from under them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
