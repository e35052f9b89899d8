//! Verdict lines: each program is run once in a process, and its tests read their lines from what it printed.

use crate::guest::{self, End, Run, Setting};
use crate::program::Program;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

type Outcome = Arc<OnceLock<Result<Run, String>>>;

/// What the program printed, from its only run in this process. Other programs may run meanwhile.
fn outcome(program: &Program) -> Outcome {
    static OUTCOMES: LazyLock<Mutex<HashMap<Program, Outcome>>> = LazyLock::new(Mutex::default);
    let outcome = OUTCOMES
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .entry(*program)
        .or_default()
        .clone();
    let setting = Setting {
        cpus: program.cpus,
        ..Setting::DEFAULT
    };
    outcome.get_or_init(|| run(program, setting));
    outcome
}

/// Compiles and runs a program; an error is in full, with the kernel's last lines.
pub fn run(program: &Program, setting: Setting) -> Result<Run, String> {
    program
        .compile()
        .and_then(|executable| guest::run(&executable, program.arguments, setting))
        .map_err(|error| guest::in_full(&error))
}

/// The run of a program whose end was in order; a test's failure if it was not.
fn of(program: &Program) -> Run {
    match outcome(program).get() {
        Some(Ok(run)) => run.clone(),
        Some(Err(error)) => panic!("{}: {error}", program.source),
        None => unreachable!("it was run"),
    }
}

/// Panics unless the program answered this question rightly.
pub fn expect(program: &Program, question: &str) {
    let run = of(program);
    let text = run.text();
    let line = text.lines().map(str::trim_end).find(|line| {
        let of = line
            .strip_prefix("PASS ")
            .or_else(|| line.strip_prefix("FAIL ").and_then(|l| l.split(':').next()));
        of == Some(question)
    });
    match line {
        Some(line) if line.starts_with("PASS ") => {}
        Some(line) => panic!("{line}"),
        None => panic!(
            "{} came to no verdict; it ended with {:?} after printing:\n{text}",
            program.source, run.end
        ),
    }
}

/// Panics if the program asked something that is not among `questions`, or if its status belies its verdicts.
pub fn expect_listed(program: &Program, questions: &[&str]) {
    let run = of(program);
    let text = run.text();
    for line in text.lines().map(str::trim_end) {
        let Some(rest) = line.strip_prefix("PASS ").or_else(|| line.strip_prefix("FAIL ")) else {
            continue;
        };
        let question = rest.split(':').next().unwrap_or(rest);
        assert!(
            questions.contains(&question),
            "{} asks {question}, and no test reads the answer",
            program.source
        );
    }
    let failed = text.lines().any(|line| line.starts_with("FAIL "));
    assert_eq!(
        run.end,
        End::Code(failed.into()),
        "the status of {}, which printed:\n{text}",
        program.source
    );
}

/// Panics with every wrong answer of the program, run under `setting`.
pub fn expect_all(program: &Program, setting: Setting) {
    let run = run(program, setting).unwrap_or_else(|error| panic!("{} under {setting:?}: {error}", program.source));
    let text = run.text();
    let wrong: Vec<&str> = text.lines().filter(|line| line.starts_with("FAIL ")).collect();
    assert!(
        wrong.is_empty() && run.end == End::Code(0),
        "{} under {setting:?} ended with {:?}:\n{}",
        program.source,
        run.end,
        if wrong.is_empty() { text } else { wrong.join("\n") }
    );
}
