//! One CPU: every path, with interrupts everywhere.

use super::*;
use crate::PAGE_SIZE;
use crate::host;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec;

#[test]
fn is_memory_of_every_size_there_and_aligned() {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        let before = slab.active_objects();
        let step = if cfg!(miri) { 257 } else { 1 };
        let sizes = (0..=crate::MAX_SMALL + 64)
            .step_by(step)
            .chain([20_000, 65_536, 65_537, 1 << 20]);
        for size in sizes {
            let first = Block::new(slab, size, Gfp::empty(), &task, 1).unwrap();
            let second = Block::new(slab, size, Gfp::ZERO, &task, 2).unwrap();
            if size.is_power_of_two() {
                let align = size.min(PAGE_SIZE);
                assert!(
                    first.pointer.addr().get().is_multiple_of(align),
                    "{size} bytes, misaligned"
                );
            }
            first.free();
            second.free();
        }
        assert_eq!(slab.active_objects(), before);
    });
}

#[test]
fn is_the_alignment_that_a_global_allocator_asks_for_kept() {
    cpu::host::single(|| {
        let slab = slab("off");
        for (size, align) in [
            (1, 1),
            (24, 16),
            (96, 64),
            (100, 128),
            (3000, 4096),
            (9000, 4096),
            (0, 64),
        ] {
            let pointer = slab.alloc_aligned(size, align).unwrap();
            assert!(pointer.addr().get().is_multiple_of(align), "{size} bytes at {align}");
            // SAFETY: just taken.
            unsafe { kfree(pointer) };
        }
    });
}

#[test]
fn is_a_request_for_too_much_refused() {
    cpu::host::single(|| {
        let slab = slab("scoped");
        let task = root_task(slab);
        for size in [
            (PAGE_SIZE << 10) + 1,
            isize::MAX as usize,
            usize::MAX - 4096,
            usize::MAX,
        ] {
            for gfp in [Gfp::empty(), Gfp::ACCOUNT] {
                assert!(matches!(
                    slab.kmalloc(size, gfp, &task),
                    Err(crate::AllocError::NoMemory)
                ));
            }
        }
        assert!(slab.alloc_aligned(usize::MAX, 16).is_err());
    });
}

#[test]
fn is_an_object_reused_at_once() {
    cpu::host::single(|| {
        let slab = slab("off");
        let first = slab.kmalloc_unaccounted(64).unwrap();
        // SAFETY: just taken.
        unsafe { kfree(first) };
        let second = slab.kmalloc_unaccounted(64).unwrap();
        assert_eq!(first, second, "the object freed last is the warmest");
        // SAFETY: just taken.
        unsafe { kfree(second) };
    });
}

/// Runs allocations and frees with an interrupt at every third point, so at each kind of point, which runs `interrupt`.
fn with_interrupts(interrupt: impl Fn(&'static Slab, &TaskMemcg, &mut Vec<Block>) + 'static) {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        let before = slab.active_objects();
        let held = Rc::new(RefCell::new(Vec::new()));
        let count = Rc::new(Cell::new(0));
        let (of_interrupts, counted) = (held.clone(), count.clone());
        cpu::host::on_point(move |_| {
            let task = root_task(slab);
            counted.set(counted.get() + 1);
            // Not at all of them: an interrupt between each read and its exchange would never let one through. Every
            // third reaches both by turns.
            if counted.get() % 3 != 0 {
                return;
            }
            interrupt(slab, &task, &mut of_interrupts.borrow_mut());
        });
        let mut blocks = Vec::new();
        let rounds = if cfg!(miri) { 60 } else { 600 };
        for round in 0..rounds {
            // Up and down, so that pages fill, get partial and empty.
            if round % 150 < 100 {
                blocks.push(Block::new(slab, 512, Gfp::empty(), &task, round as u8).unwrap());
            } else {
                let at = round * 7 % blocks.len();
                blocks.swap_remove(at).free();
            }
        }
        cpu::host::no_points();
        assert!(count.get() >= rounds, "{} interrupts", count.get());
        let held = held.take();
        assert_eq!(slab.active_objects(), before + blocks.len() + held.len());
        free_all(blocks);
        free_all(held);
        assert_eq!(slab.active_objects(), before);
    });
}

#[test]
fn may_an_interrupt_allocate_and_free_at_any_point() {
    with_interrupts(|slab, task, _| {
        let block = Block::new(slab, 512, Gfp::empty(), task, 0xaa).unwrap();
        block.free();
    });
}

#[test]
fn may_an_interrupt_keep_objects_and_free_them_in_a_later_one() {
    with_interrupts(|slab, task, held| {
        if held.len() < 40 {
            held.push(Block::new(slab, 512, Gfp::empty(), task, held.len() as u8).unwrap());
        } else {
            free_all(held.drain(3..).collect());
        }
    });
}

#[test]
fn may_an_interrupt_use_up_the_current_slab() {
    with_interrupts(|slab, task, _| {
        let blocks = (0..20).map(|n| Block::new(slab, 512, Gfp::empty(), task, n).unwrap());
        free_all(blocks.collect());
    });
}

#[test]
fn may_an_interrupt_flush_the_cpu_at_any_point() {
    with_interrupts(|slab, _, _| slab.flush_this_cpu());
}

#[test]
fn are_partial_pages_used_before_new_ones() {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        let new = || Block::new(slab, 256, Gfp::empty(), &task, 7).unwrap();
        // 40 pages of 16 objects; then every second object goes.
        let mut blocks: Vec<_> = (0..640).map(|_| new()).collect();
        let pages = slab.caches().find(|cache| cache.name == "kmalloc-256").unwrap();
        assert_eq!((pages.total_slabs, pages.active_objects), (40, 640));
        let mut keep = false;
        let (kept, freed): (Vec<_>, Vec<_>) = blocks.drain(..).partition(|_| {
            keep = !keep;
            keep
        });
        free_all(freed);
        let half = slab.caches().find(|cache| cache.name == "kmalloc-256").unwrap();
        assert_eq!((half.total_slabs, half.active_objects), (40, 320));
        assert!(half.active_slabs < 40, "the node has some");
        let frames = host::used_frames();
        let again: Vec<_> = (0..320).map(|_| new()).collect();
        assert_eq!(host::used_frames(), frames, "the holes were not used");
        free_all(kept);
        free_all(again);
        let empty = slab.caches().find(|cache| cache.name == "kmalloc-256").unwrap();
        assert_eq!(empty.active_objects, 0);
        assert!(empty.total_slabs < 40, "empty pages are given back, but for a few");
        settle(slab);
        let none = slab.caches().find(|cache| cache.name == "kmalloc-256").unwrap();
        assert_eq!((none.total_slabs, none.total_objects), (0, 0));
    });
}

#[test]
fn does_every_page_come_back() {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        settle(slab);
        let frames = host::used_frames();
        let count = if cfg!(miri) { 40 } else { 1000 };
        for size in [8, 64, 192, 512, 4096, 8192, 10_000] {
            let blocks: Vec<_> = (0..count)
                .map(|n| Block::new(slab, size, Gfp::empty(), &task, n as u8).unwrap())
                .collect();
            free_all(blocks);
        }
        settle(slab);
        assert_eq!(host::used_frames(), frames);
    });
}

#[test]
fn is_running_out_of_pages_an_error_and_no_more() {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        settle(slab);
        let (frames, before) = (host::used_frames(), slab.active_objects());
        for pages in 0..5 {
            for size in [8, 100, 2048, 8192, 9000] {
                let blocks = host::with_pages_left(pages, || {
                    let mut blocks = Vec::new();
                    while let Ok(block) = Block::new(slab, size, Gfp::ZERO, &task, 3) {
                        blocks.push(block);
                    }
                    blocks
                });
                assert!(blocks.len() >= pages, "{size} bytes, {pages} pages");
                free_all(blocks);
                settle(slab);
                assert_eq!((host::used_frames(), slab.active_objects()), (frames, before));
            }
        }
    });
}

#[test]
fn has_a_cache_of_its_own_the_asked_alignment() {
    cpu::host::single(|| {
        let slab = slab("off");
        let task = root_task(slab);
        let cache = slab
            .create_cache("lines", 72, 1, crate::CacheFlags::HWCACHE_ALIGN)
            .unwrap();
        let objects: Vec<_> = (0..100).map(|_| cache.alloc(Gfp::ZERO, &task).unwrap()).collect();
        assert!(objects.iter().all(|object| object.addr().get().is_multiple_of(64)));
        let info = cache.info();
        assert_eq!((info.object_size, info.active_objects), (128, 100));
        assert!(slab.caches().any(|info| info.name == "lines"));
        for object in objects {
            // SAFETY: from this cache, freed once.
            unsafe { cache.free(object) };
        }
        assert_eq!(cache.info().active_objects, 0);
        assert!(
            slab.create_cache("huge", 1 << 20, 8, crate::CacheFlags::empty())
                .is_err()
        );
    });
}

#[test]
fn is_running_out_of_percpu_space_an_error() {
    cpu::host::single(|| {
        let slab = slab("off");
        let before = slab.active_objects();
        // Take nearly all the space, so that a cache does not fit.
        let mut hoard = vec![];
        for size in [4096usize, 64, 16] {
            while let Some(slot) = match size {
                4096 => percpu::PerCpu::try_new(|_| [0u8; 4096])
                    .ok()
                    .map(|s| std::boxed::Box::new(s) as std::boxed::Box<dyn core::any::Any>),
                64 => percpu::PerCpu::try_new(|_| [0u8; 64])
                    .ok()
                    .map(|s| std::boxed::Box::new(s) as _),
                _ => percpu::PerCpu::try_new(|_| [0u8; 16])
                    .ok()
                    .map(|s| std::boxed::Box::new(s) as _),
            } {
                hoard.push(slot);
            }
        }
        let refused = slab.create_cache("none", 64, 8, crate::CacheFlags::empty());
        drop(hoard);
        assert!(matches!(refused, Err(crate::AllocError::NoMemory)));
        assert_eq!(slab.active_objects(), before);
    });
}

#[cfg(debug_assertions)]
mod mistakes {
    use super::*;

    #[test]
    #[should_panic(expected = "kmalloc-64: free of")]
    fn is_a_double_free_noticed() {
        cpu::host::single(|| {
            let slab = slab("off");
            let object = slab.kmalloc_unaccounted(64).unwrap();
            // SAFETY: not: the second is the mistake under test.
            unsafe {
                kfree(object);
                kfree(object);
            }
        });
    }

    #[test]
    #[should_panic(expected = "kmalloc-64: free of")]
    fn is_a_pointer_into_an_object_noticed() {
        cpu::host::single(|| {
            let slab = slab("off");
            let object = slab.kmalloc_unaccounted(64).unwrap();
            // SAFETY: not: the mistake under test.
            unsafe { kfree(object.add(8)) };
        });
    }

    #[test]
    #[should_panic(expected = "does not belong to an allocated page")]
    fn is_a_second_free_of_whole_pages_noticed() {
        cpu::host::single(|| {
            let slab = slab("off");
            let object = slab.kmalloc_unaccounted(100_000).unwrap();
            // SAFETY: not: the second is the mistake under test.
            unsafe {
                kfree(object);
                kfree(object);
            }
        });
    }
}
