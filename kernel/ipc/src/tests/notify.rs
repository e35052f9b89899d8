use super::*;
use crate::mqueue::{Ended, Ending, How, Receiving, Registration, Sending, Waiter};
use core::any::Any;

fn registration(process: u64, how: How) -> Registration {
    Registration {
        process,
        program: 1,
        how,
    }
}

fn signal(process: u64) -> Registration {
    registration(
        process,
        How::Signal {
            number: 10,
            value: 4711,
        },
    )
}

/// The process that a send notifies.
#[track_caller]
fn notified(sent: Result<Sent, Error>) -> Option<u64> {
    match sent.unwrap() {
        Sent::Queued { notify, .. } => notify.map(|registration| registration.process),
        Sent::HandedOver { .. } => None,
    }
}

const WAITER: Waiter = Waiter { task: 9, priority: 120 };

#[test]
fn is_one_process_registered_and_told_once() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 4, 8));
        assert_eq!(notified(task.send(&queue, b"a", 0)), None, "nobody is registered");
        queue.register(signal(5)).unwrap();
        assert_eq!(queue.register(signal(5)), Err(Error::Busy), "the owner again");
        assert_eq!(queue.register(registration(6, How::None)), Err(Error::Busy));
        assert_eq!(notified(task.send(&queue, b"b", 0)), None, "the queue was not empty");
        task.receive(&queue).unwrap();
        task.receive(&queue).unwrap();
        assert_eq!(queue.register(signal(6)), Err(Error::Busy), "still registered");
        assert_eq!(notified(task.send(&queue, b"c", 0)), Some(5));
        task.receive(&queue).unwrap();
        assert_eq!(notified(task.send(&queue, b"d", 0)), None, "one shot");
        queue.register(registration(6, How::None)).unwrap();
        world.unlink("q");
    });
}

#[test]
fn do_silent_registrations_hold_the_slot_and_are_used_up() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 4, 8));
        for how in [How::None, How::Signal { number: 0, value: 0 }] {
            queue.register(registration(5, how)).unwrap();
            assert_eq!(queue.register(signal(6)), Err(Error::Busy));
            assert_eq!(notified(task.send(&queue, b"a", 0)), Some(5));
            task.receive(&queue).unwrap();
        }
        assert_eq!(queue.status().process, None);
        world.unlink("q");
    });
}

#[test]
fn does_only_its_process_take_a_registration_back() {
    once(|world| {
        let queue = world.open("q", 4, 8);
        queue.register(signal(5)).unwrap();
        assert!(queue.unregister(6).is_none());
        assert!(queue.unregister(5).is_some());
        assert!(queue.unregister(5).is_none());
        queue.register(signal(6)).unwrap();
        world.unlink("q");
    });
}

#[test]
fn is_what_a_registration_holds_let_go_in_every_order() {
    once(|world| {
        let socket: Arc<dyn Any + Send + Sync> = Arc::new(());
        let how = || How::Thread {
            socket: Box::new(socket.clone()),
            cookie: [7; 32],
        };
        let holders = || Arc::strong_count(&socket) - 1;
        let task = world.task(1);

        let queue = world.open("q", 4, 8);
        queue.register(registration(5, how())).unwrap();
        assert_eq!(queue.register(registration(5, how())), Err(Error::Busy));
        assert_eq!(holders(), 1, "a refused one is dropped");
        drop(queue.unregister(5));
        assert_eq!(holders(), 0, "taken back");

        queue.register(registration(5, how())).unwrap();
        drop(task.send(&queue, b"x", 0));
        assert_eq!(holders(), 0, "fired");

        queue.register(registration(5, how())).unwrap();
        world.unlink("q");
        assert_eq!(holders(), 1, "unlinked but open");
        drop(queue);
        assert_eq!(holders(), 0, "the queue died");
        assert_eq!((Ending::Fired.cookie(), Ending::Removed.cookie()), (1, 2));
    });
}

#[test]
fn does_a_waiting_receiver_get_the_message_instead_of_the_notification() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 4, 8));
        queue.register(signal(5)).unwrap();
        let Receiving::Waiting(ticket) = queue.receive_or_wait(WAITER).unwrap() else {
            panic!("the queue is empty")
        };
        assert!(matches!(task.send(&queue, b"a", 0), Ok(Sent::HandedOver { wake: 9 })));
        // The receiver left the line at once: the next message notifies, though the receiver has not run yet.
        assert_eq!(notified(task.send(&queue, b"b", 0)), Some(5));
        let Ended::Received(message) = queue.end_wait(ticket) else {
            panic!("it was served")
        };
        assert_eq!(task.consume(&queue, message).0, b"a");
        world.unlink("q");
    });
}

#[test]
fn does_a_waiting_senders_message_in_an_emptied_queue_notify() {
    once(|world| {
        let (task, queue) = (world.task(1), world.open("q", 1, 8));
        task.send(&queue, b"a", 0).unwrap();
        queue.register(signal(5)).unwrap();
        let next = task.message(&queue, b"b");
        let Sending::Waiting(ticket) = queue.send_or_wait(next, 0, WAITER).unwrap() else {
            panic!("the queue is full")
        };
        task.receive(&queue).unwrap();
        assert_eq!(queue.status().process, Some(5), "the queue was never seen empty");
        assert!(matches!(queue.end_wait(ticket), Ended::Sent));
        world.unlink("q");
    });
}

#[test]
fn what_does_the_status_text_say() {
    once(|world| {
        let text = |queue: &Queue, pid| {
            let mut text = std::string::String::new();
            queue.status().write(pid, &mut text).unwrap();
            text
        };
        let (task, queue) = (world.task(1), world.open("q", 4, 100));
        assert_eq!(
            text(&queue, 0),
            "QSIZE:0          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"
        );
        for (length, priority) in [(77, 0), (0, 4), (9, 4)] {
            task.send(&queue, &data(1, length), priority).unwrap();
        }
        queue
            .register(registration(5, How::Signal { number: 12, value: 0 }))
            .unwrap();
        assert_eq!(
            text(&queue, 123),
            "QSIZE:86         NOTIFY:0     SIGNO:12    NOTIFY_PID:123   \n"
        );
        queue.unregister(5);
        queue.register(registration(5, How::None)).unwrap();
        assert_eq!(
            text(&queue, 123),
            "QSIZE:86         NOTIFY:1     SIGNO:0     NOTIFY_PID:123   \n"
        );
        world.unlink("q");
    });
}
