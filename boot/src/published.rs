//! The figures of the regression thread ("[Regression] mqueue performance degradation after 'The new cgroup slab memory
//! controller' patchset", 2022): nanoseconds on the reporter's machine, 256-byte messages, 100 000 rounds.

use crate::model::{Model, RowKey};

/// One row of the thread's table. All times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The kernel measured.
    pub kernel: &'static str,
    /// `mq_receive`: minimum, average, maximum.
    pub rx: [u32; 3],
    /// `mq_send`: minimum, average, maximum.
    pub tx: [u32; 3],
    /// `getppid`: average.
    pub getppid: u32,
    /// Whose accounting that kernel had.
    pub model: Model,
    /// Whether the message cache was patched in.
    pub msgcache: bool,
}

/// The thread's table, in its order; its first row is the base of its variations.
pub const TABLE: [Published; 8] = [
    row("4.18.45", [351, 382, 17533], [383, 410, 13178], 149, Model::Page, false),
    row("5.8-good", [380, 392, 7156], [376, 384, 6225], 169, Model::Page, false),
    row("5.8-bad", [524, 530, 5310], [512, 519, 8775], 169, Model::Object, false),
    row("5.10", [520, 533, 4078], [518, 534, 8108], 167, Model::Object, false),
    row("5.15", [431, 444, 8440], [425, 437, 6170], 171, Model::TaskStock, false),
    row("6.0.3", [474, 614, 3881], [482, 693, 931], 171, Model::LocalLock, false),
    row(
        "6.1-rc8",
        [496, 509, 8804],
        [493, 512, 5748],
        174,
        Model::LocalLock,
        false,
    ),
    row(
        "6.1-rc8 + cache",
        [377, 381, 6374],
        [339, 343, 13224],
        174,
        Model::LocalLock,
        true,
    ),
];

const fn row(
    kernel: &'static str,
    rx: [u32; 3],
    tx: [u32; 3],
    getppid: u32,
    model: Model,
    msgcache: bool,
) -> Published {
    Published {
        kernel,
        rx,
        tx,
        getppid,
        model,
        msgcache,
    }
}

/// The thread's rows for one row of ours; none where the thread measured no such kernel.
pub fn of(key: RowKey) -> impl Iterator<Item = &'static Published> {
    TABLE
        .iter()
        .filter(move |p| p.model == key.model && p.msgcache == key.msgcache)
}

/// A published row by its kernel's name.
pub fn kernel(name: &str) -> &'static Published {
    TABLE.iter().find(|p| p.kernel == name).expect("a kernel of the table")
}

/// The thread's variation: `(base - value) / value`, in percent. Zero cost on both sides varies by nothing.
pub fn variation(base: f64, value: f64) -> f64 {
    if base == value {
        0.0
    } else {
        (base - value) / value * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the thread prints itself, from its own nanoseconds (truncated or rounded: within a hundredth).
    #[test]
    fn variations_are_the_threads() {
        let close = |got: f64, printed: f64| assert!((got - printed).abs() < 0.011, "{got} for {printed}");
        let base = TABLE[0];
        let check = |name: &str, rx: [f64; 2], tx: [f64; 2], getppid: f64| {
            let p = kernel(name);
            for i in 0..2 {
                close(variation(base.rx[i].into(), p.rx[i].into()), rx[i]);
                close(variation(base.tx[i].into(), p.tx[i].into()), tx[i]);
            }
            close(variation(base.getppid.into(), p.getppid.into()), getppid);
        };
        check("5.8-bad", [-33.02, -27.92], [-25.20, -21.00], -11.83);
        check("6.1-rc8", [-29.23, -24.95], [-22.31, -19.92], -14.37);
        check("6.1-rc8 + cache", [-6.90, 0.26], [12.98, 19.53], -14.37);
        assert_eq!(variation(5.0, 5.0), 0.0);
        assert_eq!(variation(0.0, 0.0), 0.0);
    }

    #[test]
    fn rows_map_to_kernels() {
        let names = |model, msgcache| of(RowKey { model, msgcache }).map(|p| p.kernel).collect::<Vec<_>>();
        assert_eq!(names(Model::Page, false), ["4.18.45", "5.8-good"]);
        assert_eq!(names(Model::LocalLock, true), ["6.1-rc8 + cache"]);
        assert!(names(Model::Scoped, false).is_empty());
    }
}
