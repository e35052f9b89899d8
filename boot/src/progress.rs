//! How far a run is, on standard error: a bar on a terminal, plain lines elsewhere. Nothing of it reaches standard output.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A progress display.
#[derive(Debug)]
pub enum Progress {
    /// Nothing is shown.
    Silent,
    /// One line a step.
    Lines,
    /// A bar that is redrawn.
    Bar(ProgressBar),
}

impl Progress {
    /// For `steps` steps: a bar if standard error is a terminal, else lines.
    pub fn new(steps: u64) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::Lines;
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress::Bar(bar)
    }

    /// For a command whose output belongs to somebody else: a bar on a terminal, else nothing.
    pub fn quiet_unless_terminal(steps: u64) -> Progress {
        match Progress::new(steps) {
            Progress::Lines => Progress::Silent,
            bar => bar,
        }
    }

    /// Says what is being done now.
    pub fn doing(&self, what: &str) {
        match self {
            Progress::Silent => {}
            Progress::Lines => eprintln!("tollgate: {what}"),
            Progress::Bar(bar) => bar.set_message(what.to_owned()),
        }
    }

    /// A detail of what is being done: only a bar has room for it.
    pub fn detail(&self, what: &str) {
        if let Progress::Bar(bar) = self {
            bar.set_message(what.to_owned());
        }
    }

    /// One step is done.
    pub fn step(&self) {
        if let Progress::Bar(bar) = self {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
