//! The subcommands: each with its options and the order of what it does.

pub mod explain;
pub mod msg;
pub mod verify;
