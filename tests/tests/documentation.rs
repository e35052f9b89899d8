//! Documents that are made from the sources: that they are as the sources stand.

use std::fmt::Write;
use tollgate::build;

/// Set, the documents are written instead of compared.
const UPDATE: &str = "TOLLGATE_UPDATE_DOCS";

/// The rows of the kernel's table: name, and what is missing (nothing: all is there). In order of the name.
fn system_calls(table: &str) -> Vec<(String, Option<String>)> {
    let mut rows = Vec::new();
    // A row may be broken over lines; it ends with a semicolon behind its completeness.
    for row in table.split("__NR_").skip(1) {
        let Some((left, rest)) = row.split_once('=') else {
            continue;
        };
        let Some(name) = left.split_whitespace().nth(1) else {
            continue;
        };
        let missing = match rest.split_once("Partial(\"") {
            Some((before, after)) if !before.contains("Full;") => {
                Some(after.split('"').next().unwrap_or_default().to_owned())
            }
            _ => {
                assert!(rest.contains("Full;"), "{name}: neither Full nor Partial in\n{rest}");
                None
            }
        };
        rows.push((name.to_owned(), missing));
    }
    rows.sort();
    rows
}

#[test]
fn does_the_list_of_system_calls_say_what_the_table_says() {
    let root = build::root().unwrap();
    let table = std::fs::read_to_string(root.join("kernel/src/syscall/table.rs")).unwrap();
    let rows = system_calls(&table);
    assert!(rows.len() > 100, "{} rows found", rows.len());
    let mut text = String::from(
        "# System calls\n\nMade from the kernel's table, `kernel/src/syscall/table.rs`; a test compares the two. What is not \
         here is absent: it gives ENOSYS, and the log names it once.\n\n| call | complete |\n|---|---|\n",
    );
    for (name, missing) in &rows {
        match missing {
            None => writeln!(text, "| {name} | full |"),
            Some(missing) => writeln!(text, "| {name} | partial; missing or different: {missing} |"),
        }
        .unwrap();
    }
    let path = root.join("docs/SYSTEM-CALLS.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let document = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        document == text,
        "docs/SYSTEM-CALLS.md is not as the table stands: {UPDATE}=1 cargo test -p tests --test documentation"
    );
}
