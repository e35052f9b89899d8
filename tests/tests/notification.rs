//! POSIX message queues: being told that a message has come. C programs of programs/.

use tests::{Program, questions};

questions! {
    /// mq_notify(2) and mq_notify(3).
    mq_notify = Program::new("mq_notify");
    is_one_process_registered_at_a_time
    what_arguments_are_refused
    what_descriptors_are_refused
    in_which_order_are_faults_found
    does_the_signal_say_who_sent_it
    does_only_a_message_to_an_empty_queue_notify_and_once
    does_a_waiting_receiver_get_the_message_instead
    do_silent_registrations_hold_the_place_and_are_used_up
    does_any_close_by_the_owner_end_it
    does_a_cookie_say_how_it_ended
    may_the_socket_be_closed_first
    does_the_end_of_a_process_end_it
    does_execve_close_and_so_end_it
    what_does_the_socket_take_and_give
    does_the_library_call_back_in_a_thread
}
