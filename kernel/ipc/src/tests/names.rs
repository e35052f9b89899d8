use super::*;
use crate::mqueue::Limit;

const USER: Caller = Caller::new(1000, 1000, false, u64::MAX);

fn open(world: &World, caller: &Caller, name: &[u8], create: Option<Create>) -> Result<Handle, Error> {
    world.namespace.open(caller, name, Some(Access::all()), create)
}

fn new(exclusive: bool, mode: u16) -> Option<Create> {
    Some(Create {
        exclusive,
        mode,
        attributes: Some(Claim {
            max_messages: 1,
            message_size: 8,
        }),
    })
}

#[test]
fn which_names_are_refused_and_how() {
    once(|world| {
        let cases: [(&[u8], Option<Error>); 12] = [
            (&[b'q'; 255], None),
            (&[b'q'; 256], Some(Error::NameTooLong)),
            (&[b'q'; 5000], Some(Error::NameTooLong)),
            (b"", Some(Error::NoEntry)),
            (b".", Some(Error::Access)),
            (b"..", Some(Error::Access)),
            (b"/x", Some(Error::Access)),
            (b"x/y", Some(Error::Access)),
            (&[b'/'; 256], Some(Error::Access)),
            (&[b'/'; 4096], Some(Error::NameTooLong)),
            (b"...", None),
            (b"a b\n", None),
        ];
        for (name, error) in cases {
            let shown = name
                .escape_ascii()
                .take(20)
                .map(char::from)
                .collect::<std::string::String>();
            assert_eq!(open(world, &USER, name, new(false, 0o600)).err(), error, "{shown}");
            let unlinked = world.namespace.unlink(&USER, name).err();
            assert_eq!(unlinked, error, "unlinking {shown}");
        }
        assert_eq!(open(world, &USER, b"absent", None).err(), Some(Error::NoEntry));
        assert_eq!(world.namespace.unlink(&USER, b"absent"), Err(Error::NoEntry));
    });
}

#[test]
fn does_an_existing_queue_ignore_attributes_and_mode() {
    once(|world| {
        let queue = world.open("q", 3, 64);
        let bad = create(Some(Claim {
            max_messages: 0,
            message_size: -1,
        }));
        let again = open(world, &ROOT, b"q", bad).unwrap();
        assert_eq!(again.number(), queue.number());
        assert_eq!(
            (again.attributes().max_messages, again.attributes().message_size),
            (3, 64)
        );
        assert_eq!(again.owner().mode, 0o600);
        world.unlink("q");
    });
}

#[test]
fn in_which_order_is_an_existing_queue_refused() {
    once(|world| {
        let _queue = open(world, &ROOT, b"q", new(false, 0o600)).unwrap();
        assert_eq!(
            open(world, &USER, b"q", new(true, 0o666)).err(),
            Some(Error::Exists),
            "before permission"
        );
        let mode_3 = |caller, create| world.namespace.open(caller, b"q", None, create).err();
        assert_eq!(mode_3(&USER, None), Some(Error::Invalid), "before permission");
        assert_eq!(
            mode_3(&USER, new(true, 0)),
            Some(Error::Exists),
            "before the access mode"
        );
        for access in [Access::READ, Access::WRITE, Access::all()] {
            assert_eq!(
                world.namespace.open(&USER, b"q", Some(access), None).err(),
                Some(Error::Access)
            );
        }
        world.unlink("q");
        // A queue that access mode 3 makes gives no right.
        let made = world.namespace.open(&USER, b"q", None, new(true, 0o600)).unwrap();
        assert_eq!(made.access(), Access::empty());
        world.unlink("q");
    });
}

#[test]
fn does_a_mode_bind_the_next_opening_and_not_the_first() {
    once(|world| {
        let first = open(world, &USER, b"q", new(true, 0)).unwrap();
        assert_eq!(first.access(), Access::all());
        assert_eq!(
            world.namespace.open(&USER, b"q", Some(Access::READ), None).err(),
            Some(Error::Access)
        );
        first.change_mode(&USER, 0o200).unwrap();
        assert!(world.namespace.open(&USER, b"q", Some(Access::WRITE), None).is_ok());
        assert_eq!(
            world.namespace.open(&USER, b"q", Some(Access::READ), None).err(),
            Some(Error::Access)
        );
        assert!(
            world.namespace.open(&ROOT, b"q", Some(Access::READ), None).is_ok(),
            "modes do not bind root"
        );
        world.unlink("q");
    });
}

#[test]
fn may_a_stranger_unlink() {
    once(|world| {
        let queue = open(world, &ROOT, b"q", new(true, 0o666)).unwrap();
        assert_eq!(world.namespace.unlink(&USER, b"q"), Err(Error::NotPermitted));
        assert!(queue.is_linked());
        queue.change_owner(&ROOT, Some(1000), None).unwrap();
        assert_eq!(world.namespace.unlink(&USER, b"q"), Ok(()));
        assert!(!queue.is_linked());
    });
}

#[test]
fn does_an_unlinked_queue_go_on_beside_a_new_one_of_its_name() {
    everywhere(|world| {
        let task = world.task(1);
        let old = world.open("q", 2, 8);
        task.send(&old, b"old", 0).unwrap();
        world.unlink("q");
        assert_eq!(world.namespace.unlink(&ROOT, b"q"), Err(Error::NoEntry));
        assert_eq!(open(world, &ROOT, b"q", None).err(), Some(Error::NoEntry));
        let new = world.open("q", 2, 8);
        assert_ne!(old.number(), new.number());
        assert_eq!(task.receive(&new), Err(Error::WouldBlock));
        task.send(&new, b"new!", 0).unwrap();
        assert_eq!(task.receive(&old).unwrap().0, b"old");
        assert_eq!(world.namespace.len(), 2);
        drop(old);
        assert_eq!(world.namespace.len(), 1);
        assert_eq!(task.receive(&new).unwrap().0, b"new!");
        world.unlink("q");
    });
}

#[test]
fn does_a_named_queue_keep_its_messages_while_nobody_has_it_open() {
    everywhere(|world| {
        let task = world.task(1);
        task.send(&world.open("q", 5, 8), b"kept", 7).unwrap();
        let again = world.open("q", 1, 1);
        assert_eq!(task.receive(&again).unwrap(), (b"kept".to_vec(), 7));
        task.send(&again, b"lost", 7).unwrap();
        drop(again);
        world.unlink("q");
        assert_eq!(world.namespace.len(), 0, "unlinked while closed: gone at once");
    });
}

#[test]
fn is_the_limit_of_queues_for_ordinary_callers_and_counts_unlinked_ones() {
    once(|world| {
        let limits = world.namespace.limits();
        limits.set(Limit::QueuesMax, 2).unwrap();
        let first = open(world, &USER, b"1", new(true, 0o600)).unwrap();
        let _second = open(world, &USER, b"2", new(true, 0o600)).unwrap();
        let third = || open(world, &USER, b"3", new(true, 0o600));
        assert_eq!(third().err(), Some(Error::NoSpace));
        world.namespace.unlink(&USER, b"1").unwrap();
        assert_eq!(third().err(), Some(Error::NoSpace), "unlinked but open");
        let beyond = open(world, &ROOT, b"4", new(true, 0o600)).unwrap();
        drop(beyond);
        world.unlink("4");
        let bad = Some(Create {
            attributes: Some(Claim {
                max_messages: 0,
                message_size: 0,
            }),
            ..new(true, 0).unwrap()
        });
        assert_eq!(
            open(world, &USER, b"3", bad).err(),
            Some(Error::NoSpace),
            "before the attributes"
        );
        drop(first);
        drop(third().unwrap());
        world.unlink("2");
        world.unlink("3");
        limits.set(Limit::QueuesMax, 256).unwrap();
    });
}

#[test]
fn is_the_users_limit_exact_and_held_until_the_last_close() {
    once(|world| {
        let bill = 10 * 8192 + 96 * 10;
        let default = |caller: &Caller, name: &[u8]| open(world, caller, name, create(None));
        let short = Caller::new(1000, 1000, false, bill - 1);
        assert_eq!(default(&short, b"a").err(), Some(Error::UserLimit));
        assert_eq!(
            open(world, &short, b"a", None).err(),
            Some(Error::NoEntry),
            "no name is left"
        );
        let fits = Caller::new(1000, 1000, false, bill);
        let queue = default(&fits, b"b").unwrap();
        assert_eq!(world.ipc.users().bytes(1000), bill);
        let small = || open(world, &fits, b"c", new(true, 0o600));
        assert_eq!(small().err(), Some(Error::UserLimit));
        world.namespace.unlink(&fits, b"b").unwrap();
        assert_eq!(small().err(), Some(Error::UserLimit), "unlinked but open");
        let root = Caller::new(0, 0, true, bill);
        drop(default(&root, b"r").unwrap());
        assert_eq!(default(&root, b"s").err(), Some(Error::UserLimit), "root is not exempt");
        drop(queue);
        drop(small().unwrap());
        world.unlink("c");
        world.unlink("r");
    });
}

#[test]
fn is_the_directory_listed_in_order_and_from_anywhere() {
    once(|world| {
        let names = ["b", "a", "c", "aa"];
        let queues = names.map(|name| world.open(name, 1, 8));
        let list = |after: Option<&[u8]>, most: usize| {
            let mut seen = Vec::new();
            world.namespace.list(after, |name, _| {
                seen.push(std::string::String::from_utf8(name.to_vec()).unwrap());
                seen.len() < most
            });
            seen
        };
        assert_eq!(list(None, 9), ["a", "aa", "b", "c"]);
        assert_eq!(list(None, 2), ["a", "aa"]);
        assert_eq!(list(Some(b"aa"), 9), ["b", "c"]);
        assert_eq!(list(Some(b"ab"), 9), ["b", "c"], "after a name that has gone");
        drop(queues);
        names.into_iter().for_each(|name| world.unlink(name));
    });
}

#[test]
fn is_a_look_at_a_queue_a_hold_without_rights() {
    once(|world| {
        drop(world.open("q", 1, 8));
        let look = world.namespace.find(b"q").unwrap();
        assert_eq!(look.access(), Access::empty());
        world.unlink("q");
        assert_eq!(world.namespace.len(), 1);
        drop(look);
        assert_eq!(world.namespace.len(), 0);
    });
}
