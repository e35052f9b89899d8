//! How a run fails: one line for the person, details above it, a status for the shell.
//!
//! Every error of this crate is an `anyhow::Error` whose chain reads `what: cause: remedy`. Two kinds carry more than a
//! text: [`Usage`] (the command line was wrong, status 2) and [`Failed`] (a boot went wrong: console lines to show
//! first, and the status).

use std::fmt;

/// A mistake on the command line; exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A boot (or a build) that did not do what was asked: the line that names it, what to show before that line, and the
/// exit status.
#[derive(Debug)]
pub struct Failed {
    /// The one line: what failed, why, what to do.
    pub line: String,
    /// Shown on standard error before the line: the last console lines, or a compiler's messages.
    pub detail: Vec<String>,
    /// The exit status: 124 for the time limit, 125 for a kernel that failed, 130 for an interrupt, 1 for the rest.
    pub status: i32,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Failed {}

/// Status of a run that passed its time limit, as timeout(1) has it.
pub const TIMED_OUT: i32 = 124;
/// Status of a run whose kernel failed.
pub const KERNEL_FAILED: i32 = 125;
/// Status of a run that the user interrupted (128 + SIGINT).
pub const INTERRUPTED: i32 = 130;

/// The error as one line without its program name: the chain joined by `: `, line ends replaced.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string().trim().replace(['\r', '\n'], "; ");
        // Some libraries repeat their cause in their own text.
        if !parts.last().is_some_and(|p| p.ends_with(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

/// The exit status for an error.
pub fn status(error: &anyhow::Error) -> i32 {
    for cause in error.chain() {
        if cause.is::<Usage>() {
            return 2;
        }
        if let Some(failed) = cause.downcast_ref::<Failed>() {
            return failed.status;
        }
    }
    1
}

/// The lines to show before the one line.
pub fn detail(error: &anyhow::Error) -> &[String] {
    error
        .chain()
        .find_map(|c| c.downcast_ref::<Failed>())
        .map_or(&[], |f| f.detail.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn chain_is_one_line() {
        let e = Err::<(), _>(anyhow!("first\nsecond")).context("what").unwrap_err();
        assert_eq!(one_line(&e), "what: first; second");
        assert_eq!(status(&e), 1);
    }

    #[test]
    fn kinds_keep_their_status_under_context() {
        let e = anyhow::Error::new(Usage("no such model".into())).context("--models");
        assert_eq!(status(&e), 2);
        let e = anyhow::Error::new(Failed {
            line: "late".into(),
            detail: vec!["a".into()],
            status: TIMED_OUT,
        })
        .context("row");
        assert_eq!((status(&e), detail(&e).len()), (124, 1));
    }
}
