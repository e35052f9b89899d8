use super::*;

/// Hits and misses during `f`.
fn counted(world: &World, f: impl FnOnce()) -> (u64, u64) {
    let counts = world.ipc.cache_counts();
    let before = (counts.hits(), counts.misses());
    f();
    (counts.hits() - before.0, counts.misses() - before.1)
}

fn rounds(queue: &Queue, task: &Task, length: usize, rounds: u64) {
    for seed in 0..rounds {
        let data = data(seed, length);
        task.send(queue, &data, 0).unwrap();
        assert_eq!(task.receive(queue).unwrap(), (data, 0));
    }
}

#[test]
fn does_the_threads_loop_hit_but_for_the_first_time() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        assert_eq!(counted(world, || rounds(&queue, &task, 256, 100)), (99, 1));
        world.unlink("q");
    });
}

#[test]
fn do_messages_with_segments_hit_too() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        assert_eq!(counted(world, || rounds(&queue, &task, 8192, 100)), (99, 1));
        world.unlink("q");
    });
}

#[test]
fn is_another_length_or_another_task_a_miss() {
    once(|world| {
        let (one, two, queue) = (world.task(1), world.task(2), world.open("q", 10, 8192));
        rounds(&queue, &one, 256, 1);
        assert_eq!(counted(world, || rounds(&queue, &one, 255, 1)), (0, 1));
        assert_eq!(counted(world, || rounds(&queue, &two, 256, 1)), (0, 1));
        // The slot was taken all the time, and still holds the first.
        assert_eq!(counted(world, || rounds(&queue, &one, 256, 1)), (1, 0));
        world.unlink("q");
    });
}

#[test]
fn does_another_queues_slot_not_serve() {
    once(|world| {
        let (task, a, b) = (world.task(1), world.open("a", 10, 8192), world.open("b", 10, 8192));
        rounds(&a, &task, 256, 1);
        assert_eq!(counted(world, || rounds(&b, &task, 256, 1)), (0, 1));
        world.unlink("a");
        world.unlink("b");
    });
}

#[test]
fn is_a_task_that_moved_to_another_cgroup_served_on_the_old_bill() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        rounds(&queue, &task, 8000, 1);
        task.memcg.set_cgroup(world.cgroups[1]);
        assert_eq!(counted(world, || _ = task.send(&queue, &[0; 8000], 0).unwrap()), (0, 1));
        world.settle_this_cpu();
        assert!(
            world.cgroups[1].memory().usage() >= 2,
            "the second message is the second cgroup's"
        );
        world.unlink("q");
    });
}

#[test]
fn is_a_message_that_another_cgroup_pays_for_kept() {
    once(|world| {
        let (sender, receiver, queue) = (world.task(1), world.task(2), world.open("q", 10, 8192));
        receiver.memcg.set_cgroup(world.cgroups[1]);
        sender.send(&queue, &[0; 256], 0).unwrap();
        receiver.receive(&queue).unwrap();
        world.settle_this_cpu();
        assert_eq!(world.objects(), world.resting, "it was freed, not kept");
        assert_eq!(counted(world, || rounds(&queue, &receiver, 256, 2)), (1, 1));
        world.unlink("q");
    });
}

#[test]
fn is_a_blank_whose_copy_failed_cached_under_its_right_length() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        let blank = queue.alloc(task.id, &task.memcg, 5000).unwrap();
        let (blank, _) = blank.fill(&mut &[1; 4999][..]).unwrap_err();
        queue.free(task.id, &task.memcg, blank);
        assert_eq!(counted(world, || rounds(&queue, &task, 4999, 1)), (0, 1));
        assert_eq!(counted(world, || rounds(&queue, &task, 5000, 1)), (1, 0));
        world.unlink("q");
    });
}

#[test]
fn does_cached_memory_stay_charged_until_drained() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        let (own, other) = (world.cgroups[0].id().index(), world.cgroups[1].id().index());
        rounds(&queue, &task, 8000, 1);
        world.settle_this_cpu();
        assert!(world.cgroups[0].memory().usage() >= 2);
        assert_eq!(world.namespace.drain_caches_this_cpu(|owner| owner == other), 0);
        assert_eq!(world.namespace.drain_caches_this_cpu(|owner| owner == own), 8000);
        assert_eq!(world.namespace.drain_caches_this_cpu(|_| true), 0, "the slot is empty");
        // Only a rest of a page for the open bytes of the task's objcg may be left.
        world.settle_this_cpu();
        assert!(world.cgroups[0].memory().usage() <= 1);
        assert_eq!(counted(world, || rounds(&queue, &task, 8000, 2)), (1, 1));
        world.unlink("q");
    });
}

#[test]
fn are_the_slots_of_an_unlinked_queue_drained_too() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        world.unlink("q");
        rounds(&queue, &task, 100, 1);
        assert_eq!(world.namespace.drain_caches_this_cpu(|_| true), 100);
    });
}

#[test]
fn does_a_queue_without_cache_count_nothing() {
    cpu::host::single(|| {
        let world = World::of("scoped", false);
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        assert!(!queue.cache().is_on());
        assert_eq!(counted(world, || rounds(&queue, &task, 256, 10)), (0, 0));
        world.unlink("q");
        drop((task, queue));
        world.assert_clean();
    });
}

#[test]
fn do_full_per_cpu_areas_cost_the_cache_and_not_the_queue() {
    once(|world| {
        let mut hogs = Vec::new();
        for size in [4096, 256, 16] {
            while let Ok(hog) = match size {
                4096 => percpu::PerCpu::try_new(|_| [0u64; 512]).map(Hog::Page),
                256 => percpu::PerCpu::try_new(|_| [0u64; 32]).map(Hog::Line),
                _ => percpu::PerCpu::try_new(|_| [0u64; 2]).map(Hog::Unit),
            } {
                hogs.push(hog);
            }
        }
        let (task, queue) = (world.task(1), world.open("q", 10, 8192));
        assert!(!queue.cache().is_on());
        rounds(&queue, &task, 256, 3);
        drop(hogs);
        world.unlink("q");
    });
}

enum Hog {
    Page(#[allow(dead_code)] percpu::PerCpu<[u64; 512]>),
    Line(#[allow(dead_code)] percpu::PerCpu<[u64; 32]>),
    Unit(#[allow(dead_code)] percpu::PerCpu<[u64; 2]>),
}
