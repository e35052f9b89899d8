//! What the numbers say: the thread's open question, and whether the published order of the rows came out. Every
//! sentence is computed from the rows; none knows what it should say.

use crate::experiment::Row;
use crate::latency;
use crate::model::{Model, RowKey};
use crate::published;

/// A statement that the published figures make, and whether ours make it too.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What the published figures say.
    pub claim: String,
    /// Their figures.
    pub published: String,
    /// Ours.
    pub measured: String,
    /// Our modelled times, where a time is modelled.
    pub modelled_ns: Option<String>,
    /// Whether it holds for the measured minima of receive and of send.
    pub holds: [bool; 2],
    /// Whether it holds for the modelled time of receive and of send; none where no time is modelled.
    pub modelled: Option<[bool; 2]>,
}

impl Finding {
    /// The verdict in words.
    pub fn verdict(&self) -> String {
        let words = |[rx, tx]: [bool; 2]| match (rx, tx) {
            (true, true) => "agrees",
            (true, false) => "agrees for receive, not for send",
            (false, true) => "agrees for send, not for receive",
            (false, false) => "DOES NOT AGREE",
        };
        match self.modelled {
            Some(modelled) if modelled != self.holds => {
                format!("{} (in modelled time: {})", words(self.holds), words(modelled))
            }
            _ => words(self.holds).into(),
        }
    }
}

fn row(rows: &[Row], model: Model, msgcache: bool) -> Option<&Row> {
    rows.iter().find(|r| r.key == RowKey { model, msgcache })
}

/// Receive and send: the measured minima.
fn minima(row: &Row) -> [f64; 2] {
    [row.measured.rx.min, row.measured.tx.min]
}

/// Receive and send: modelled nanoseconds, lines of the CPU's own.
fn modelled(row: &Row) -> [f64; 2] {
    [
        latency::alone(row.measured.rx.min, &row.events.rx),
        latency::alone(row.measured.tx.min, &row.events.tx),
    ]
}

/// One message sent and received, minima.
fn pair(row: &Row) -> f64 {
    minima(row).iter().sum()
}

/// The published order, statement by statement, for those whose rows were run. `model_time`: whether the figures are
/// instructions, for which a time can be modelled.
pub fn order(rows: &[Row], model_time: bool) -> Vec<Finding> {
    type Row3<'a> = [Option<&'a Row>; 3];
    let mut found = Vec::new();
    let mut say = |claim: &str, published: String, of: Row3, holds: &dyn Fn(&[f64]) -> bool| {
        let Some(rows) = of.into_iter().filter(|r| r.is_some()).collect::<Option<Vec<_>>>() else {
            return;
        };
        let each = |figures: fn(&Row) -> [f64; 2]| {
            [0, 1].map(|call| holds(&rows.iter().map(|&r| figures(r)[call]).collect::<Vec<_>>()))
        };
        let shown = |figures: fn(&Row) -> [f64; 2], digits: usize| {
            let [rx, tx] = [0, 1].map(|call| {
                let each = rows
                    .iter()
                    .map(|&r| format!("{} {:.digits$}", r.key.name(), figures(r)[call]));
                each.collect::<Vec<_>>().join(", ")
            });
            format!("receive: {rx}; send: {tx}")
        };
        found.push(Finding {
            claim: claim.into(),
            published,
            measured: shown(minima, 0),
            modelled_ns: model_time.then(|| shown(modelled, 1)),
            holds: each(minima),
            modelled: model_time.then(|| each(modelled)),
        });
    };
    let published = |names: &[&str]| {
        let call = |figure: fn(&published::Published) -> u32| {
            names
                .iter()
                .map(|n| format!("{n} {}", figure(published::kernel(n))))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!("receive: {}; send: {} ns", call(|p| p.rx[0]), call(|p| p.tx[0]))
    };
    let get = |model, cache| row(rows, model, cache);
    let (page, object) = (get(Model::Page, false), get(Model::Object, false));
    let (task_stock, local_lock) = (get(Model::TaskStock, false), get(Model::LocalLock, false));
    let (cached, scoped) = (get(Model::LocalLock, true), get(Model::Scoped, false));

    if page.is_some() && object.is_some() {
        say(
            "charging objects costs more than charging pages",
            published(&["5.8-good", "5.8-bad"]),
            [page, object, None],
            &|f| f[1] > f[0],
        );
    }
    if page.is_some() && object.is_some() && task_stock.is_some() {
        say(
            "the task's own stock lies between the two",
            published(&["5.8-good", "5.15", "5.8-bad"]),
            [page, task_stock, object],
            &|f| f[0] < f[1] && f[1] < f[2],
        );
    }
    if task_stock.is_some() && local_lock.is_some() {
        say(
            "one stock under a local lock costs more than the task's own",
            published(&["5.15", "6.1-rc8"]),
            [task_stock, local_lock, None],
            &|f| f[1] > f[0],
        );
    }
    if local_lock.is_some() && cached.is_some() {
        say(
            "the message cache makes that kernel cheaper",
            published(&["6.1-rc8", "6.1-rc8 + cache"]),
            [local_lock, cached, None],
            &|f| f[1] < f[0],
        );
    }
    if page.is_some() && cached.is_some() {
        say(
            "and with it no dearer than charging pages was before the regression",
            published(&["5.8-good", "6.1-rc8 + cache"]),
            [page, cached, None],
            &|f| f[1] <= f[0],
        );
    }
    if local_lock.is_some() && scoped.is_some() {
        say(
            "scoped lookup makes accounting cheaper again",
            "kmalloc(64) a million times in a user cgroup: 84435 us before, 59385 us after (the RFC's figures)".into(),
            [local_lock, scoped, None],
            &|f| f[1] < f[0],
        );
    }
    found
}

/// The thread's open question, answered from the rows: would the 5.14 optimisation and the message cache together do
/// better still than the cache alone?
pub fn open_question(rows: &[Row], unit: &str) -> String {
    const QUESTION: &str =
        "Open question (would the 5.14 optimisation and the message cache together do better still?):";
    let (Some(both), Some(last)) = (row(rows, Model::TaskStock, true), row(rows, Model::LocalLock, true)) else {
        return format!("{QUESTION} not answered by this run: it needs the rows task-stock and local-lock.");
    };
    let (cost, of_last) = (pair(both), pair(last));
    let against = |other: &Row| {
        let (name, value) = (other.key.name(), pair(other));
        match cost - value {
            d if d < 0.0 => format!("{} fewer than {name} ({value})", -d),
            d if d > 0.0 => format!("{d} more than {name} ({value})"),
            _ => format!("the same as {name}"),
        }
    };
    let answer = match cost.total_cmp(&of_last) {
        std::cmp::Ordering::Less => format!("yes, by {:.2} %", (of_last - cost) / of_last * 100.0),
        std::cmp::Ordering::Equal => "no, it makes no difference".into(),
        std::cmp::Ordering::Greater => format!("no, it costs {:.2} % more", (cost - of_last) / of_last * 100.0),
    };
    let others: Vec<String> = [
        Some(last),
        row(rows, Model::Scoped, true),
        row(rows, Model::TaskStock, false),
        row(rows, Model::Page, false),
        row(rows, Model::Off, false),
    ]
    .into_iter()
    .flatten()
    .map(against)
    .collect();
    format!(
        "{QUESTION} {answer}. {} takes {cost} {unit} for one send and one receive (minima): {}.",
        both.key.name(),
        others.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::recorded;

    #[test]
    fn order_follows_the_numbers() {
        let mut rows = recorded();
        let found = order(&rows, true);
        assert_eq!(found.len(), 6);
        assert!(
            found[0]
                .measured
                .contains("receive: page 200, object 280; send: page 210, object 290"),
            "{}",
            found[0].measured
        );
        assert_eq!(found[0].verdict(), "agrees");
        // Dearer in instructions by nothing, dearer in time by its interrupt flag.
        assert_eq!(found[2].holds, [false, false]);
        assert_eq!(found[2].verdict(), "DOES NOT AGREE (in modelled time: agrees)");
        // Now let object be cheaper for receive.
        rows.iter_mut()
            .find(|r| r.key.model == Model::Object && !r.key.msgcache)
            .unwrap()
            .measured
            .rx
            .min = 100.0;
        assert_eq!(order(&rows, false)[0].verdict(), "agrees for send, not for receive");
    }

    #[test]
    fn order_skips_what_was_not_run() {
        let rows: Vec<Row> = recorded().into_iter().filter(|r| r.key.model == Model::Page).collect();
        assert!(order(&rows, true).is_empty());
        assert!(open_question(&rows, "instructions").contains("not answered"));
    }

    #[test]
    fn the_answer_follows_the_numbers() {
        let mut rows = recorded();
        let set = |rows: &mut Vec<Row>, value: f64| {
            let row = rows
                .iter_mut()
                .find(|r| {
                    r.key
                        == RowKey {
                            model: Model::TaskStock,
                            msgcache: true,
                        }
                })
                .unwrap();
            row.measured.rx.min = value;
            row.measured.tx.min = value;
        };
        let local_lock = rows
            .iter()
            .find(|r| {
                r.key
                    == RowKey {
                        model: Model::LocalLock,
                        msgcache: true,
                    }
            })
            .unwrap();
        let half = (local_lock.measured.rx.min + local_lock.measured.tx.min) / 2.0;
        set(&mut rows, half);
        assert!(open_question(&rows, "instructions").contains("no, it makes no difference"));
        set(&mut rows, half / 2.0);
        assert!(open_question(&rows, "instructions").contains("yes, by 50.00 %"));
        set(&mut rows, half * 2.0);
        assert!(open_question(&rows, "instructions").contains("no, it costs 100.00 % more"));
    }
}
