use super::*;
use crate::message::MAX_SEGMENT;
use slab::Fault;

#[test]
fn do_messages_of_every_shape_come_out_as_they_went_in() {
    everywhere(|world| {
        let task = world.task(1);
        let ends = [
            0,
            1,
            MAX_INLINE,
            MAX_INLINE + MAX_SEGMENT,
            MAX_INLINE + 2 * MAX_SEGMENT,
            100_000,
        ];
        for length in ends.into_iter().flat_map(|end| [end.saturating_sub(1), end, end + 1]) {
            let data = data(length as u64, length);
            let message = Blank::alloc(world.slab, &task.memcg, length)
                .unwrap()
                .fill(&mut &data[..])
                .unwrap();
            assert_eq!(message.len(), length);
            assert_eq!(content(&message), data, "{length} bytes");
        }
    });
}

#[test]
fn is_a_part_of_a_message_its_beginning() {
    once(|world| {
        let task = world.task(1);
        let data = data(7, 10_000);
        let message = Blank::alloc(world.slab, &task.memcg, 10_000)
            .unwrap()
            .fill(&mut &data[..])
            .unwrap();
        for length in [0, 1, MAX_INLINE, MAX_INLINE + 1, 9_999, 10_000, 20_000] {
            let mut part = vec![0; length.min(10_000)];
            message.copy_out(&mut &mut part[..], length).unwrap();
            assert_eq!(part, data[..part.len()]);
        }
        let mut short = [0; 9_000];
        assert_eq!(message.copy_out(&mut &mut short[..], 10_000), Err(Fault));
    });
}

#[test]
fn does_a_fault_while_filling_give_the_blank_back() {
    once(|world| {
        let task = world.task(1);
        for length in [1, 100, MAX_INLINE + 1, 10_000] {
            let short = data(1, length - 1);
            let blank = Blank::alloc(world.slab, &task.memcg, length).unwrap();
            let (blank, Fault) = blank.fill(&mut &short[..]).unwrap_err();
            assert_eq!(blank.len(), length);
            let whole = data(2, length);
            assert_eq!(content(&blank.fill(&mut &whole[..]).unwrap()), whole);
        }
    });
}

#[test]
fn is_a_message_charged_to_its_sender_until_it_is_freed_by_anybody() {
    cpu::host::single(|| {
        for model in ["object", "task-stock", "local-lock", "scoped"] {
            let world = World::of(model, false);
            let usage = || {
                world.settle_this_cpu();
                world.cgroups.map(|cgroup| cgroup.memory().usage())
            };
            let (sender, receiver) = (world.task(1), world.task(2));
            receiver.memcg.set_cgroup(world.cgroups[1]);
            let queue = world.open("q", 20, 8192);
            for _ in 0..20 {
                sender.send(&queue, &[1; 8192], 0).unwrap();
            }
            // Each takes two pages: 8192 bytes and two headers.
            let full = usage();
            assert!(full[0] >= 40 && full[1] == 0, "{model}: {full:?}");
            for _ in 0..20 {
                receiver.receive(&queue).unwrap();
            }
            let empty = usage();
            assert!(empty[0] <= 1 && empty[1] <= 1, "{model}: {empty:?}");
            world.unlink("q");
            drop((queue, sender, receiver));
            world.assert_clean();
        }
    });
}

#[test]
fn does_an_allocation_that_fails_half_way_leave_nothing() {
    once(|world| {
        let task = world.task(1);
        let queue = world.open("q", 10, 200_000);
        let whole = data(3, 200_000);
        for pages in 0..60 {
            let blank = slab::host::with_pages_left(pages, || queue.alloc(task.id, &task.memcg, whole.len()));
            match blank {
                Err(error) => assert!(matches!(error, slab::AllocError::NoMemory)),
                Ok(blank) => assert_eq!(content(&blank.fill(&mut &whole[..]).unwrap()), whole),
            }
        }
        world.unlink("q");
    });
}

#[test]
fn does_a_cgroup_at_its_limit_refuse_and_lose_nothing() {
    once(|world| {
        let task = world.task(1);
        let queue = world.open("q", 1000, 8192);
        world.cgroups[0].memory().set_max(100);
        let mut sent = 0;
        let refused = loop {
            match queue.alloc(task.id, &task.memcg, 8192) {
                Ok(blank) => _ = queue.send(blank.fill(&mut &data(sent, 8192)[..]).unwrap(), 0).unwrap(),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert!(matches!(refused, slab::AllocError::OverLimit(cgroup) if core::ptr::eq(cgroup, world.cgroups[0])));
        assert!(
            (20..=50).contains(&sent),
            "{sent} messages of two pages in a hundred pages"
        );
        for seed in 0..sent {
            assert_eq!(task.receive(&queue).unwrap().0, data(seed, 8192));
        }
        world.cgroups[0].memory().set_max(i64::MAX);
        task.send(&queue, &[0; 8192], 0).unwrap();
        world.unlink("q");
    });
}
