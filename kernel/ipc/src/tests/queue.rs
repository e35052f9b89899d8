use super::*;
use crate::mqueue::{Ended, Receiving, Sending, Ticket, Waiter};
use slab::{Gfp, Object};

fn waiter(task: TaskId) -> Waiter {
    Waiter { task, priority: 120 }
}

#[track_caller]
fn wait_to_receive(queue: &Queue, waiter: Waiter) -> Ticket {
    match queue.receive_or_wait(waiter).unwrap() {
        Receiving::Waiting(ticket) => ticket,
        Receiving::Done(_) => panic!("the queue has a message"),
    }
}

#[track_caller]
fn wait_to_send(queue: &Queue, task: &Task, data: &[u8], priority: u32, waiter: Waiter) -> Ticket {
    match queue.send_or_wait(task.message(queue, data), priority, waiter).unwrap() {
        Sending::Waiting(ticket) => ticket,
        Sending::Done(_) => panic!("the queue has room"),
    }
}

#[test]
fn does_the_highest_priority_come_first_and_the_oldest_within_it() {
    everywhere(|world| {
        let (task, queue) = (world.task(1), world.open("q", 100, 8));
        let priorities = [5, 0, 5, 32767, 1, 0, 32767, 5, 2, 1, 9, 3, 3, 8, 0];
        for (at, &priority) in priorities.iter().enumerate() {
            task.send(&queue, &[at as u8], priority).unwrap();
        }
        let mut expected: Vec<_> = priorities.iter().enumerate().collect();
        expected.sort_by_key(|&(at, &priority)| (core::cmp::Reverse(priority), at));
        for (at, &priority) in expected {
            assert_eq!(task.receive(&queue), Ok((vec![at as u8], i64::from(priority))));
        }
        assert_eq!(task.receive(&queue), Err(Error::WouldBlock));
        world.unlink("q");
    });
}

#[test]
fn is_a_full_queue_full_and_a_message_of_no_bytes_a_message() {
    everywhere(|world| {
        let (task, queue) = (world.task(1), world.open("q", 3, 8));
        for _ in 0..3 {
            assert!(queue.ready().1);
            task.send(&queue, b"", 0).unwrap();
        }
        assert_eq!(queue.ready(), (true, false));
        assert!(matches!(task.send(&queue, b"", 31), Err(Error::WouldBlock)));
        assert_eq!(queue.len(), 3);
        for _ in 0..3 {
            assert_eq!(task.receive(&queue), Ok((vec![], 0)));
        }
        assert_eq!(queue.ready(), (false, true));
        world.unlink("q");
    });
}

#[test]
fn do_levels_that_come_and_go_allocate_once() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 10, 8));
        let mut rounds = 0;
        let mut round = || {
            for priority in [1, 2] {
                task.send(&queue, b"x", priority).unwrap();
            }
            assert_eq!(task.receive(&queue).unwrap().1, 2);
            assert_eq!(task.receive(&queue).unwrap().1, 1);
            rounds += 1;
        };
        round();
        // The second priority's node and the message in the cache are there: nothing more is needed.
        let before = world.objects();
        (0..50).for_each(|_| round());
        assert_eq!(world.objects(), before);
        assert_eq!(rounds, 51);
        world.unlink("q");
    });
}

#[test]
fn does_a_level_without_memory_give_the_message_back() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 1000, 8));
        task.send(&queue, b"first", 0).unwrap();
        let mut refused = 0;
        for priority in 1..1000 {
            let message = task.message(&queue, b"more");
            match slab::host::with_pages_left(0, || queue.send(message, priority)) {
                Ok(_) => {}
                Err(not_sent) => {
                    assert_eq!(not_sent.reason, Error::NoMemory);
                    assert_eq!(content(&not_sent.message), b"more");
                    refused += 1;
                    // The same message, with memory.
                    queue.send(not_sent.message, priority).unwrap();
                }
            }
        }
        assert!(refused > 5, "{refused} refusals: a page of nodes each");
        for priority in (1..1000).rev() {
            assert_eq!(task.receive(&queue).unwrap().1, priority);
        }
        world.unlink("q");
    });
}

#[test]
fn does_a_message_for_a_waiting_receiver_bypass_the_queue() {
    everywhere(|world| {
        let (task, queue) = (world.task(1), world.open("q", 2, 8));
        let first = wait_to_receive(&queue, waiter(11));
        let second = wait_to_receive(&queue, waiter(12));
        assert_eq!(queue.waiting(), (2, 0));
        assert!(!queue.served(&first));
        assert!(matches!(task.send(&queue, b"a", 1), Ok(Sent::HandedOver { wake: 11 })));
        assert!(queue.served(&first) && !queue.served(&second));
        assert_eq!((queue.len(), queue.waiting()), (0, (1, 0)));
        // Served, it is not out of time any more.
        let Ended::Received(message) = queue.end_wait(first) else {
            panic!("served")
        };
        assert_eq!(task.consume(&queue, message), (b"a".to_vec(), 1));
        assert!(matches!(queue.end_wait(second), Ended::GivenUp(None)));
        assert_eq!(queue.waiting(), (0, 0));
        assert!(matches!(task.send(&queue, b"b", 0), Ok(Sent::Queued { .. })));
        world.unlink("q");
    });
}

#[test]
fn does_a_receive_let_the_first_waiting_sender_in() {
    everywhere(|world| {
        let (task, queue) = (world.task(1), world.open("q", 1, 8));
        task.send(&queue, b"0", 5).unwrap();
        let low = wait_to_send(&queue, &task, b"low", 1, waiter(11));
        let high = wait_to_send(&queue, &task, b"high", 9, waiter(12));
        assert_eq!(queue.waiting(), (0, 2));
        let received = queue.receive().unwrap();
        assert_eq!((received.wake, received.wake_pollers), (Some(11), false));
        assert_eq!(task.consume(&queue, received.message).1, 5);
        assert!(queue.served(&low) && !queue.served(&high));
        assert_eq!(queue.len(), 1);
        assert!(matches!(queue.end_wait(low), Ended::Sent));
        let Ended::GivenUp(Some(message)) = queue.end_wait(high) else {
            panic!("not served")
        };
        assert_eq!(task.consume(&queue, message).0, b"high");
        assert_eq!(task.receive(&queue), Ok((b"low".to_vec(), 1)));
        world.unlink("q");
    });
}

#[test]
fn are_more_urgent_tasks_served_first() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 1, 8));
        let mut tickets: Vec<_> = [(1, 120), (2, 110), (3, 120), (4, 110)]
            .into_iter()
            .map(|(task, priority)| wait_to_receive(&queue, Waiter { task, priority }))
            .collect();
        let woken: Vec<_> = (0..4)
            .map(|_| match task.send(&queue, b"x", 0).unwrap() {
                Sent::HandedOver { wake } => wake,
                sent => panic!("{sent:?}"),
            })
            .collect();
        assert_eq!(woken, [2, 4, 1, 3]);
        for ticket in tickets.drain(..) {
            let Ended::Received(message) = queue.end_wait(ticket) else {
                panic!("served")
            };
            task.free(&queue, message);
        }
        world.unlink("q");
    });
}

#[test]
fn can_letting_a_sender_in_fail_for_want_of_memory() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 2, 8));
        task.send(&queue, b"a", 5).unwrap();
        task.send(&queue, b"b", 5).unwrap();
        let tickets = [1, 9, 3].map(|priority| wait_to_send(&queue, &task, b"w", priority, waiter(7)));
        slab::host::with_pages_left(0, || {
            // Takes every free object of the class that nodes come from.
            let node = 64;
            let object = || Object::try_new(world.slab, Gfp::empty(), &task.memcg, (), node - Object::<()>::OVERHEAD);
            let hogs: Vec<_> = core::iter::from_fn(|| object().ok()).collect();
            for expected in [5, 5, 9, 3, 1] {
                let received = queue.receive().unwrap();
                assert_eq!(received.message.kind(), expected);
                drop(received);
            }
            drop(hogs);
        });
        let mut ends = tickets.into_iter().map(|ticket| queue.end_wait(ticket));
        assert!(ends.all(|end| matches!(end, Ended::Sent)));
        world.unlink("q");
    });
}

#[test]
fn does_unlinking_leave_waiters_alone() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 2, 8));
        let ticket = wait_to_receive(&queue, waiter(11));
        world.unlink("q");
        assert!(!queue.served(&ticket));
        assert!(matches!(task.send(&queue, b"go", 0), Ok(Sent::HandedOver { wake: 11 })));
        let Ended::Received(message) = queue.end_wait(ticket) else {
            panic!("served")
        };
        task.free(&queue, message);
    });
}

#[test]
fn are_pollers_woken_when_there_are_any() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 2, 8));
        let sent = |data: &[u8]| match task.send(&queue, data, 0).unwrap() {
            Sent::Queued { wake_pollers, .. } => wake_pollers,
            Sent::HandedOver { .. } => false,
        };
        assert!(!sent(b"a"));
        queue.add_poller();
        assert!(sent(b"b"));
        let received = queue.receive().unwrap();
        assert!(received.wake_pollers);
        task.free(&queue, received.message);
        // A message that bypasses the queue makes nothing readable.
        task.receive(&queue).unwrap();
        let ticket = wait_to_receive(&queue, waiter(2));
        assert!(!sent(b"c"));
        drop(queue.end_wait(ticket));
        queue.remove_poller();
        assert!(!sent(b"d"));
        world.unlink("q");
    });
}
