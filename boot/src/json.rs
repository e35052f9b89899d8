//! The same results for machines: one JSON document with every figure of the tables, what was published, and what the
//! run was made with.

use crate::build;
use crate::console::Stat;
use crate::experiment::{EVENT_ROUNDS, Plan, Row};
use crate::findings;
use crate::latency::{self, PerCall};
use crate::preflight::Ready;
use crate::published::{self, variation};
use crate::table;
use anyhow::Result;
use serde_json::{Value, json};

/// What the run was made with.
pub fn meta(plan: &Plan, ready: &Ready) -> Result<Value> {
    Ok(json!({
        "rustc": ready.toolchain.version()?,
        "qemu": ready.qemu_version,
        "accel": plan.machine.accel.name(),
        "cpus": plan.machine.cpus,
        "mem_mib": plan.machine.mem,
        "rounds": plan.rounds,
        "event_rounds": plan.rounds.min(EVENT_ROUNDS),
        "unit": plan.unit(),
        "commit": build::commit(),
    }))
}

/// The document. Rows as in the tables; a time is modelled only for instructions.
pub fn document(meta: Value, plan: &Plan, rows: &[Row]) -> Value {
    let base = table::base(rows);
    let modelled = plan.unit() == "instructions";
    let rows_json: Vec<Value> = rows
        .iter()
        .map(|row| {
            let call = |pick: fn(&Row) -> (Stat, PerCall)| {
                let (stat, events) = pick(row);
                let base = base.map(|b| pick(b).0);
                json!({
                    "min": stat.min,
                    "avg": stat.avg,
                    "max": stat.max,
                    "variation_min_percent": base.map(|b| variation(b.min, stat.min)),
                    "variation_avg_percent": base.map(|b| variation(b.avg, stat.avg)),
                    "events": {
                        "locked": events.locked,
                        "irq_flag": events.irq_flag,
                        "preempt": events.preempt,
                        "shared_lines": events.shared_lines,
                        "charges": events.charges,
                        "references": events.references,
                    },
                    "model_ns": modelled.then(|| latency::alone(stat.min, &events)),
                    "model_contended_ns": modelled.then(|| latency::contended(stat.min, &events)),
                })
            };
            json!({
                "row": row.key.name(),
                "model": row.key.model.name(),
                "msgcache": row.key.msgcache,
                "rx": call(|r| (r.measured.rx, r.events.rx)),
                "tx": call(|r| (r.measured.tx, r.events.tx)),
                "getppid": call(|r| (r.measured.getppid, r.events.getppid)),
                "first_user_instruction_tsc": row.first_user_tsc,
                "counts": row.counts,
                "published": published::of(row.key).map(published_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    let order: Vec<Value> = findings::order(rows, modelled)
        .iter()
        .map(|f| {
            json!({
                "claim": f.claim, "published": f.published, "measured": f.measured, "modelled_ns": f.modelled_ns,
                "verdict": f.verdict(),
                "rx": f.holds[0], "tx": f.holds[1],
                "model_rx": f.modelled.map(|m| m[0]), "model_tx": f.modelled.map(|m| m[1]),
            })
        })
        .collect();
    json!({
        "meta": meta,
        "latency_model": {
            "clock_ghz": latency::CLOCK_GHZ,
            "cycles_per_instruction": latency::CPI,
            "cycles_per_locked": latency::LOCKED,
            "cycles_per_irq_flag": latency::IRQ_FLAG,
            "cycles_per_shared_line": latency::SHARED_LINE,
        },
        "base": base.map(|b| b.key.name()),
        "rows": rows_json,
        "published": published::TABLE.iter().map(published_json).collect::<Vec<_>>(),
        "order": order,
        "open_question": findings::open_question(rows, plan.unit()),
    })
}

fn published_json(p: &published::Published) -> Value {
    let three = |t: [u32; 3]| json!({"min": t[0], "avg": t[1], "max": t[2]});
    json!({"kernel": p.kernel, "unit": "ns", "rx": three(p.rx), "tx": three(p.tx), "getppid": p.getppid})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::Accel;
    use crate::table::tests::{plan, recorded};

    #[test]
    fn every_figure_is_there() {
        let doc = document(json!({"x": 1}), &plan(Accel::Icount), &recorded());
        let row = &doc["rows"][2];
        assert_eq!(row["row"], "object");
        assert_eq!(row["rx"]["min"], 280.0);
        assert_eq!(row["tx"]["events"]["locked"], 2.0);
        assert_eq!(row["published"][0]["kernel"], "5.8-bad");
        assert_eq!(row["counts"]["charges"], 7);
        assert!((row["rx"]["variation_min_percent"].as_f64().unwrap() + 28.571).abs() < 0.001);
        assert!(doc["open_question"].as_str().unwrap().contains("task-stock + cache"));
        assert_eq!(doc["published"].as_array().unwrap().len(), 8);
        assert_eq!(doc["base"], "page");
    }

    #[test]
    fn the_clock_models_nothing() {
        let doc = document(Value::Null, &plan(Accel::Kvm), &recorded());
        assert!(doc["rows"][0]["rx"]["model_ns"].is_null());
    }
}
