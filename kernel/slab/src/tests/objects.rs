//! Owning objects, queues and trees.

use super::*;
use crate::{Fault, Fifo, Object, Sink, Source, Spare, Tree};
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::Arc;
use std::vec;

/// Runs with an allocator and a task, and checks that all objects came back.
fn with_slab(f: impl FnOnce(&'static Slab, &TaskMemcg)) {
    cpu::host::single(|| {
        let slab = slab("scoped");
        let cgroup = slab.accounting().create(slab.accounting().root()).unwrap();
        let task = TaskMemcg::new(cgroup);
        settle(slab);
        let before = slab.active_objects();
        f(slab, &task);
        settle(slab);
        assert_eq!(slab.active_objects(), before);
        task.exit(slab.accounting());
        slab.accounting().drain_this_cpu();
        assert_eq!(cgroup.memory().usage(), 0);
    });
}

fn object<H>(slab: &Slab, task: &TaskMemcg, header: H, inline: usize) -> Object<H> {
    Object::try_new(slab, Gfp::ACCOUNT, task, header, inline).unwrap()
}

#[test]
fn does_an_object_keep_header_and_bytes() {
    with_slab(|slab, task| {
        for len in [0, 1, 7, 256, 4048, 5000, 20_000] {
            let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut object = object(slab, task, (String::from("header"), len), len);
            assert_eq!((object.inline_len(), object.filled()), (len, 0));
            object.fill(0..len, &mut &text[..]).unwrap();
            let mut out = vec![0; len];
            object.copy_to(0..len, &mut &mut out[..]).unwrap();
            assert_eq!(out, text);
            assert_eq!(object.bytes_filled(), text);
            object.0.push('!');
            assert_eq!((object.0.as_str(), object.1), ("header!", len));
        }
    });
}

#[test]
fn is_the_header_dropped_once() {
    with_slab(|slab, task| {
        let witness = Arc::new(());
        let one = object(slab, task, witness.clone(), 10);
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(one);
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

#[test]
fn is_a_short_source_or_sink_a_fault() {
    struct Half;
    // SAFETY: never Ok.
    unsafe impl Source for Half {
        fn read(&mut self, into: &mut [MaybeUninit<u8>]) -> Result<(), Fault> {
            let half = into.len() / 2;
            into[..half].fill(MaybeUninit::new(b'x'));
            Err(Fault)
        }
    }
    with_slab(|slab, task| {
        let mut object = object(slab, task, (), 10);
        assert_eq!(object.fill(0..10, &mut &b"short"[..]), Err(Fault));
        assert_eq!(object.fill(0..10, &mut Half), Err(Fault));
        assert_eq!(object.filled(), 0, "nothing can be read");
        object.fill(0..4, &mut &b"abcd"[..]).unwrap();
        assert_eq!(object.fill(4..10, &mut Half), Err(Fault));
        assert_eq!(object.bytes_filled(), b"abcd");
        let mut small = [0; 3];
        assert_eq!(object.copy_to(0..4, &mut &mut small[..]), Err(Fault));
        object.fill(4..6, &mut &b"ef"[..]).unwrap();
        let mut sink = [0; 8];
        let mut rest = &mut sink[..];
        object.copy_to(1..3, &mut rest).unwrap();
        rest.write(b"!").unwrap();
        assert_eq!(&sink, b"bc!\0\0\0\0\0");
        object.clear();
        assert_eq!(object.filled(), 0);
    });
}

#[test]
#[should_panic(expected = "fill of inline bytes")]
fn is_a_gap_in_the_filling_refused() {
    with_slab(|slab, task| {
        let mut object = object(slab, task, (), 10);
        _ = object.fill(1..3, &mut &b"ab"[..]);
    });
}

#[test]
#[should_panic(expected = "out of range")]
fn are_bytes_that_were_not_filled_unreadable() {
    with_slab(|slab, task| {
        let mut object = object(slab, task, (), 10);
        object.fill(0..3, &mut &b"abc"[..]).unwrap();
        _ = object.copy_to(0..4, &mut &mut [0; 10][..]);
    });
}

#[test]
fn is_a_refused_object_gone_with_its_header() {
    cpu::host::single(|| {
        let slab = slab("scoped");
        let task = root_task(slab);
        let witness = Arc::new(());
        let huge = Object::try_new(slab, Gfp::empty(), &task, witness.clone(), u32::MAX as usize);
        assert!(huge.is_err());
        assert!(Object::try_new(slab, Gfp::empty(), &task, witness.clone(), usize::MAX).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

#[test]
fn is_the_first_in_the_first_out() {
    with_slab(|slab, task| {
        let mut fifo = Fifo::new();
        assert!(fifo.is_empty() && fifo.pop().is_none() && fifo.front().is_none());
        for n in 1..=5 {
            fifo.push(object(slab, task, n, 8));
        }
        fifo.push_front(object(slab, task, 0, 8));
        assert_eq!(
            fifo.iter().map(|object| **object).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
        *fifo.front_mut().unwrap() += 100;
        for (n, mut entry) in fifo.iter_mut().enumerate() {
            let len = entry.inline_len();
            entry.fill(0..len, &mut &[n as u8; 8][..]).unwrap();
            *entry.header_mut() += 10;
        }
        let mut all = vec![];
        while let Some(object) = fifo.pop() {
            assert_eq!(object.bytes_filled(), [all.len() as u8; 8]);
            all.push(*object);
        }
        assert_eq!(all, [110, 11, 12, 13, 14, 15]);
        fifo.push(object(slab, task, 7, 0));
        assert_eq!(fifo.pop().as_deref(), Some(&7), "usable after it was empty");
        fifo.push_front(object(slab, task, 8, 0));
        fifo.push(object(slab, task, 9, 0));
        assert_eq!(fifo.iter().count(), 2);
    });
}

#[test]
fn can_any_object_be_taken_out_of_a_queue() {
    with_slab(|slab, task| {
        for taken in 0..5 {
            let mut fifo = Fifo::new();
            (0..4).for_each(|number| fifo.push(object(slab, task, number, 0)));
            let look = |&number: &i32| match number == taken {
                true => ControlFlow::Break(true),
                false => ControlFlow::Continue(()),
            };
            assert_eq!(
                fifo.take_where(look).map(|object| *object),
                (taken < 4).then_some(taken)
            );
            // Whatever was the last: the next one comes behind what is left.
            fifo.push(object(slab, task, 9, 0));
            let left: Vec<_> = core::iter::from_fn(|| fifo.pop()).map(|object| *object).collect();
            let expected: Vec<_> = (0..4).filter(|&number| number != taken).chain([9]).collect();
            assert_eq!(left, expected);
        }
        let mut fifo = Fifo::new();
        fifo.push(object(slab, task, 1, 0));
        assert!(
            fifo.take_where(|_| ControlFlow::Break(false)).is_none(),
            "looked at and left"
        );
        assert_eq!(fifo.front(), Some(&1));
    });
}

#[test]
fn is_a_long_chain_dropped_without_recursion() {
    struct Segments(Fifo<()>);
    with_slab(|slab, task| {
        let mut message = object(slab, task, Segments(Fifo::new()), 0);
        for _ in 0..if cfg!(miri) { 50 } else { 200_000 } {
            message.0.push(object(slab, task, (), 0));
        }
    });
}

#[test]
fn is_a_tree_a_sorted_map() {
    with_slab(|slab, task| {
        let spare = || Spare::try_new(slab, Gfp::ACCOUNT, task).unwrap();
        let mut tree = Tree::new();
        let mut model = BTreeMap::new();
        let mut random = 12345u32;
        for round in 0..if cfg!(miri) { 100 } else { 5000 } {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let key = random >> 16 & 63;
            match (random >> 8 & 3, model.contains_key(&key)) {
                (0 | 1, false) => {
                    tree.insert(spare(), key, String::from("value"));
                    model.insert(key, String::from("value"));
                }
                (0 | 1, true) => {
                    tree.get_mut(key).unwrap().push('+');
                    model.get_mut(&key).unwrap().push('+');
                }
                (2, _) => {
                    let removed = tree.remove(key);
                    assert_eq!(removed.map(|(value, _)| value), model.remove(&key));
                }
                _ if round % 2 == 0 => {
                    let popped = tree.pop_last().map(|(key, value, _)| (key, value));
                    assert_eq!(popped, model.pop_last());
                }
                _ => {
                    let popped = tree.pop_first().map(|(key, value, _)| (key, value));
                    assert_eq!(popped, model.pop_first());
                }
            }
            assert_eq!(tree.get(key), model.get(&key));
            assert_eq!(tree.first(), model.first_key_value().map(|(key, value)| (*key, value)));
            assert_eq!(tree.last(), model.last_key_value().map(|(key, value)| (*key, value)));
            assert_eq!(tree.is_empty(), model.is_empty());
        }
        assert!(tree.iter().eq(model.iter().map(|(key, value)| (*key, value))));
        if let Some((key, value)) = tree.last_mut() {
            value.clear();
            assert_eq!(tree.get(key).map(String::as_str), Some(""));
        }
    });
}

#[test]
fn are_equal_keys_kept_in_order_and_found_by_value() {
    with_slab(|slab, task| {
        let mut tree = Tree::new();
        for n in 0..6 {
            tree.insert(Spare::try_new(slab, Gfp::empty(), task).unwrap(), n % 2, n);
        }
        assert_eq!(
            tree.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            [0, 2, 4, 1, 3, 5]
        );
        let (key, value, spare) = tree.remove_where(|_, value| *value == 4).unwrap();
        assert_eq!((key, value), (0, 4));
        tree.insert(spare, 0, 6);
        assert_eq!(
            tree.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            [0, 2, 6, 1, 3, 5]
        );
        assert!(tree.remove_where(|_, value| *value == 4).is_none());
        assert_eq!(
            tree.remove(1).map(|(value, _)| value),
            Some(1),
            "the oldest of equal ones"
        );
        assert_eq!(
            tree.pop_last().map(|(_, value, _)| value),
            Some(5),
            "the youngest of equal ones"
        );
    });
}
