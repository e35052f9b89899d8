//! Namespaces: C programs of programs/.

use tests::{Program, questions};

questions! {
    /// Namespaces of message queues.
    ipc_namespaces = Program::new("ipc_namespaces");
    has_a_new_namespace_queues_of_its_own
    has_a_new_namespace_limits_of_its_own
    does_proc_tell_namespaces_apart
    does_clone_make_a_namespace
    who_may_make_a_namespace
    does_setns_go_back_and_forth
    does_a_mount_show_its_mounters_queues
    does_an_open_queue_outlive_its_namespace
    do_namespaces_come_and_go
}
