/// The version of the ABI, which is the number in the library's SONAME. It grows when a function goes, or changes what it
/// takes or means; new functions leave it as it is.
pub const RUNLEDGER_ABI_VERSION: u32 = 1;
