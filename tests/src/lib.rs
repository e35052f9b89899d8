//! The booted tests: what they share.
//!
//! A test boots the kernel with one small C program of programs/ and looks at what came out. Most programs are lists of
//! questions with a verdict line each (programs/verdict.h): such a program is booted once in a test process, and every
//! question is a test of its own, which reads its line ([`questions!`]). So the list of tests says what is checked, and
//! a failing one says what the kernel answered and what the right answer is.
//!
//! Every right answer was seen on Linux first, and can be seen there again: with the environment variable
//! `TOLLGATE_TESTS_RUNNER` set to a command, the programs are not booted on Tollgate but given to that command, as
//! `COMMAND PROGRAM ARGUMENT...`, whose status must be the program's. `env` runs them on the host's own kernel.
#![forbid(unsafe_code)]

pub mod guest;
pub mod program;
pub mod verdict;

pub use guest::{End, Run, Setting};
pub use program::Program;

/// Linux's numbers of the signals that the tests expect.
pub mod signal {
    /// Illegal instruction.
    pub const SIGILL: i32 = 4;
    /// Breakpoint or single step.
    pub const SIGTRAP: i32 = 5;
    /// Arithmetic exception.
    pub const SIGFPE: i32 = 8;
    /// Invalid memory reference.
    pub const SIGSEGV: i32 = 11;
}

/// A module of tests, one for each question of a program, and one that finds questions that are not listed.
#[macro_export]
macro_rules! questions {
    ($(#[$doc:meta])* $module:ident = $program:expr; $($question:ident)+) => {
        $(#[$doc])*
        mod $module {
            use super::*;

            const PROGRAM: $crate::Program = $program;

            $(
                #[test]
                fn $question() {
                    $crate::verdict::expect(&PROGRAM, stringify!($question));
                }
            )+

            #[test]
            fn is_every_question_listed() {
                $crate::verdict::expect_listed(&PROGRAM, &[$(stringify!($question)),+]);
            }
        }
    };
}
