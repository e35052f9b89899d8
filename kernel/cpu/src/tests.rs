//! Do CPUs on the host behave as the machine's?

use crate::event::{self, Event};
use crate::{AtomicRef, IrqLock, SpinLock, host, irq, preempt};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn do_sections_nest_and_come_back() {
    host::single(|| {
        assert!(irq::enabled() && preempt::preemptible());
        crate::without_interrupts(|_| {
            assert!(!irq::enabled());
            crate::without_interrupts(|_| assert!(!irq::enabled()));
            assert!(!irq::enabled(), "the inner section turned interrupts on");
            crate::without_preemption(|_| {
                crate::without_preemption(|_| assert!(!preempt::preemptible()));
                assert!(!preempt::preemptible(), "the inner section made the CPU preemptible");
            });
        });
        assert!(irq::enabled() && preempt::preemptible());
    });
}

#[test]
fn is_a_wanted_reschedule_done_when_the_last_section_ends() {
    static RESCHEDULES: AtomicU32 = AtomicU32::new(0);
    host::single(|| {
        preempt::set_reschedule(|| {
            RESCHEDULES.fetch_add(1, Ordering::Relaxed);
            preempt::clear_need_resched();
        });
        crate::without_preemption(|_| ());
        assert_eq!(RESCHEDULES.load(Ordering::Relaxed), 0, "nobody asked");
        crate::without_preemption(|_| {
            crate::without_preemption(|_| preempt::set_need_resched());
            assert!(preempt::need_resched());
            assert_eq!(RESCHEDULES.load(Ordering::Relaxed), 0, "the outer section still holds");
        });
        assert_eq!(RESCHEDULES.load(Ordering::Relaxed), 1);
        assert!(!preempt::need_resched());
    });
}

#[test]
fn does_an_interrupt_come_at_a_point_only_when_it_may() {
    host::single(|| {
        let seen = Rc::new(Cell::new(0));
        let handler_seen = seen.clone();
        host::on_point(move |name| {
            assert_eq!(name, "here");
            assert!(!irq::enabled() && !crate::in_task(), "a handler runs as an interrupt");
            crate::point("here"); // interrupts do not nest
            handler_seen.set(handler_seen.get() + 1);
        });
        crate::point("here");
        assert_eq!(seen.get(), 1);
        crate::without_interrupts(|_| crate::point("here"));
        assert_eq!(seen.get(), 1, "masked");
        crate::without_preemption(|_| crate::point("here"));
        assert_eq!(seen.get(), 2, "preemption off does not mask");
        assert!(crate::in_task());
    });
}

#[test]
fn do_locks_exclude_four_cpus() {
    struct Shared {
        spin: SpinLock<(u64, u64)>,
        irq: IrqLock<(u64, u64)>,
    }
    host::scenario(
        4,
        || Shared {
            spin: SpinLock::new(1, (0, 0)),
            irq: IrqLock::new(2, (0, 0)),
        },
        |_, shared| {
            for _ in 0..1000 {
                let mut outer = shared.spin.lock();
                outer.0 += 1;
                let mut inner = shared.irq.lock();
                inner.0 += 1;
                assert!(!irq::enabled());
                inner.1 += 1;
                drop(inner);
                assert!(irq::enabled() && !preempt::preemptible());
                outer.1 += 1;
            }
            assert!(preempt::preemptible());
        },
        |mut shared| {
            assert_eq!(*shared.spin.get_mut(), (4000, 4000));
            assert_eq!(*shared.irq.get_mut(), (4000, 4000));
        },
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order: rank 1 wanted while rank 2 is held")]
fn is_a_wrong_lock_order_noticed() {
    host::single(|| {
        let (outer, inner) = (SpinLock::new(1, ()), SpinLock::new(2, ()));
        let _inner = inner.lock();
        let _outer = outer.lock();
    });
}

#[test]
fn may_locks_be_let_go_in_any_order() {
    host::single(|| {
        let (a, b, c) = (SpinLock::new(1, ()), IrqLock::new(2, ()), SpinLock::new(3, ()));
        let (held_a, held_b) = (a.lock(), b.lock());
        drop(held_a);
        let held_c = c.lock();
        drop(held_b);
        drop(held_c);
        let _again = a.lock();
    });
}

#[test]
fn does_a_cell_of_references_give_what_was_put_in() {
    static ONE: u32 = 1;
    static TWO: u32 = 2;
    host::single(|| {
        let cell = AtomicRef::none();
        assert_eq!(cell.load(), None);
        assert_eq!(cell.set_once(&ONE), Ok(()));
        assert_eq!(cell.set_once(&TWO), Err(&ONE));
        assert_eq!(cell.swap(Some(&TWO)), Some(&ONE));
        assert_eq!(*cell.get(), 2);
        cell.store(None);
        assert_eq!(cell.load(), None);
    });
}

#[test]
#[cfg(feature = "events")]
fn are_events_counted_and_an_interrupts_set_aside() {
    host::single(|| {
        let (lock, other) = (SpinLock::new(1, ()), crate::atomic::AtomicU64::new(0));
        host::on_point(|_| drop(SpinLock::new(1, ()).lock()));
        event::clear();
        drop(lock.lock());
        drop(lock.lock());
        crate::point("an interrupt that locks");
        other.fetch_add(1, Ordering::Relaxed);
        crate::without_interrupts(|_| ());
        let counts = event::counts();
        assert_eq!(counts[Event::Locked as usize], 3);
        assert_eq!(counts[Event::Preempt as usize], 4);
        assert_eq!(counts[Event::IrqFlag as usize], 2);
        assert!(
            (1..=2).contains(&counts[Event::SharedLine as usize]),
            "the lock's line counts once"
        );
    });
}

#[test]
#[cfg(not(feature = "events"))]
fn does_a_measured_build_count_nothing() {
    host::single(|| {
        event::count(Event::Locked);
        event::shared_write(&0);
        assert_eq!(event::counts(), [0; event::KINDS]);
    });
}
