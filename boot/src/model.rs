//! The accounting models and the rows of the table: which kernel is booted with which command line.

use crate::failure::Usage;
use anyhow::Result;
use std::fmt;

/// One design of kernel memory accounting, as the kernel's `accounting=` option names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Accounting disabled.
    Off,
    /// A copy of each cache for each cgroup, pages charged (Linux 4.18 to 5.8).
    Page,
    /// One set of caches, objects charged through a byte stock with interrupts disabled (5.9 to 5.13).
    Object,
    /// Two stocks for each CPU, the task's without disabling interrupts (5.14 to 5.17).
    TaskStock,
    /// One stock again, under an irq-saving local lock (5.18 to 6.6).
    LocalLock,
    /// The objcg pointer in the task, valid for the scope of the call (6.7 on).
    Scoped,
}

impl Model {
    /// Every model, in the order of the history and of the table.
    pub const ALL: [Model; 6] = [
        Model::Off,
        Model::Page,
        Model::Object,
        Model::TaskStock,
        Model::LocalLock,
        Model::Scoped,
    ];

    /// The name on the kernel's command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Off => "off",
            Model::Page => "page",
            Model::Object => "object",
            Model::TaskStock => "task-stock",
            Model::LocalLock => "local-lock",
            Model::Scoped => "scoped",
        }
    }

    /// Reads one name. Errors: [`Usage`], naming the known ones.
    pub fn parse(name: &str) -> Result<Model> {
        Model::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| {
            let known: Vec<_> = Model::ALL.iter().map(|m| m.name()).collect();
            Usage(format!(
                "unknown accounting model '{name}': the known ones are {}",
                known.join(", ")
            ))
            .into()
        })
    }

    /// Reads a comma-separated list; duplicates count once, the order is the table's. Errors: [`Usage`].
    pub fn parse_list(list: &str) -> Result<Vec<Model>> {
        let asked = list
            .split(',')
            .map(str::trim)
            .map(Model::parse)
            .collect::<Result<Vec<_>>>()?;
        Ok(Model::ALL.into_iter().filter(|m| asked.contains(m)).collect())
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What one boot of the experiment measures: a model, with or without the message cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Whether the message cache is on.
    pub msgcache: bool,
    /// The accounting model.
    pub model: Model,
}

impl RowKey {
    /// The rows of a table over these models: all without the message cache, then all with it.
    pub fn rows(models: &[Model]) -> Vec<RowKey> {
        [false, true]
            .into_iter()
            .flat_map(|msgcache| models.iter().map(move |&model| RowKey { msgcache, model }))
            .collect()
    }

    /// The row's name in tables.
    pub fn name(self) -> String {
        if self.msgcache {
            format!("{} + cache", self.model)
        } else {
            self.model.to_string()
        }
    }

    /// The kernel's command line for this row.
    pub fn cmdline(self, cgroup: Cgroup) -> String {
        cmdline(self.model, self.msgcache, cgroup)
    }
}

/// Where the first program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroup {
    /// The root cgroup: kernel memory is not charged.
    Root,
    /// The cgroup /u, a child of the root: charged.
    User,
}

impl Cgroup {
    /// Reads `user` or `root`. Errors: [`Usage`].
    pub fn parse(name: &str) -> Result<Cgroup> {
        match name {
            "user" => Ok(Cgroup::User),
            "root" => Ok(Cgroup::Root),
            other => Err(Usage(format!("unknown cgroup '{other}': user or root")).into()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Cgroup::User => "user",
            Cgroup::Root => "root",
        }
    }
}

/// The kernel's command line: its log goes to the second serial line, so that the first carries the program's bytes only.
pub fn cmdline(model: Model, msgcache: bool, cgroup: Cgroup) -> String {
    format!(
        "accounting={model} msgcache={} cgroup={} log=com2",
        if msgcache { "on" } else { "off" },
        cgroup.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_keeps_the_tables_order() {
        assert_eq!(
            Model::parse_list("scoped, page,scoped").unwrap(),
            [Model::Page, Model::Scoped]
        );
    }

    #[test]
    fn unknown_model_names_the_known() {
        let e = Model::parse_list("page,pages").unwrap_err();
        let line = crate::failure::one_line(&e);
        assert!(
            line.contains("'pages'") && line.contains("off, page, object, task-stock, local-lock, scoped"),
            "{line}"
        );
        assert_eq!(crate::failure::status(&e), 2);
    }

    #[test]
    fn rows_are_two_blocks() {
        let rows = RowKey::rows(&Model::ALL);
        assert_eq!(rows.len(), 12);
        assert_eq!((rows[1].name(), rows[7].name()), ("page".into(), "page + cache".into()));
        assert_eq!(
            rows[11].cmdline(Cgroup::User),
            "accounting=scoped msgcache=on cgroup=user log=com2"
        );
    }
}
