//! POSIX message queues by one task: C programs of programs/, linked with the C library as they come.

use tests::{Program, Setting, questions, verdict};
use tollgate::model::{Cgroup, Model};

questions! {
    /// POSIX queues: opening.
    mq_open = Program::new("mq_open");
    does_a_queue_keep_the_attributes_it_was_made_with
    does_no_attribute_mean_ten_messages_of_8192_bytes
    does_an_existing_queue_keep_its_attributes_when_opened_again
    are_bad_attributes_ignored_for_an_existing_queue
    what_sizes_are_refused
    may_root_pass_the_default_limits
    does_a_missing_queue_give_enoent
    does_exclusive_creation_refuse_an_existing_queue
    is_access_mode_three_invalid
    what_names_does_the_kernel_refuse
    what_names_does_the_library_refuse
    is_a_name_of_255_bytes_the_longest
    may_a_name_hold_any_byte_but_slash_and_zero
    does_a_bad_name_pointer_give_efault
    does_a_bad_attribute_pointer_give_efault_first
    do_descriptors_count_up_from_the_lowest_free_one
    does_no_free_descriptor_give_emfile_and_leave_no_queue
}

questions! {
    /// POSIX queues: names that go.
    mq_unlink = Program::new("mq_unlink");
    does_a_missing_name_give_enoent
    what_names_are_refused
    does_a_bad_pointer_give_efault
    is_an_unlinked_queue_still_a_queue
    may_the_name_be_used_for_another_queue_at_once
    does_a_closed_queue_keep_its_messages_under_its_name
    can_many_queues_come_and_go_with_messages_in_them
}

questions! {
    /// POSIX queues: sending without waiting.
    mq_send = Program::new("mq_send");
    does_a_full_queue_refuse_a_message
    is_a_message_longer_than_the_queue_allows_refused
    is_a_message_of_no_bytes_a_message
    what_priorities_are_there
    does_a_receiving_end_refuse_to_send
    what_descriptors_are_refused
    are_the_upper_halves_of_int_arguments_ignored
    in_which_order_are_faults_found
    does_a_refused_message_leave_nothing_behind
    does_the_queue_keep_its_own_copy
}

questions! {
    /// POSIX queues: receiving without waiting.
    mq_receive = Program::new("mq_receive");
    does_an_empty_queue_have_nothing_to_receive
    does_a_short_receive_buffer_get_emsgsize
    may_the_buffer_be_longer_than_any_message
    do_higher_priorities_come_first
    does_one_priority_keep_the_order_of_sending
    does_a_long_random_history_keep_both_orders
    does_a_sending_end_refuse_to_receive
    what_descriptors_are_refused
    in_which_order_are_faults_found
    does_a_failed_copy_consume_the_message
}

questions! {
    /// POSIX queues: messages of every awkward length.
    mq_sizes = Program::new("mq_sizes");
    do_short_messages_come_back_whole
    do_messages_at_the_edges_of_segments_come_back_whole
    does_a_message_of_16_mib_come_back_whole
    do_unaligned_buffers_work
    do_mixed_lengths_in_one_queue_stay_apart
}

questions! {
    /// POSIX queues: whatever address a program hands over.
    mq_memory = Program::new("mq_memory");
    does_a_bad_message_address_give_efault
    does_a_bad_buffer_address_give_efault
    does_a_bad_priority_address_give_efault
    does_a_bad_deadline_address_give_efault
    does_a_buffer_that_runs_into_a_hole_give_efault
    does_a_hole_under_a_later_segment_give_efault
    may_a_read_only_page_be_sent_but_not_received_into
    may_untouched_pages_be_used
    does_a_failed_send_leave_no_trace_in_the_next_message
    does_a_length_that_wraps_around_give_no_message
}

questions! {
    /// POSIX queues: deadlines.
    mq_timeout = Program::new("mq_timeout");
    is_a_bad_deadline_always_invalid
    does_a_past_deadline_time_out_at_once
    does_a_past_deadline_matter_only_to_a_call_that_would_block
    does_nonblock_beat_a_deadline
    does_a_call_wait_until_its_deadline
    does_a_wait_that_timed_out_leave_the_queues_as_they_were
    does_the_library_pass_deadlines_on
}

questions! {
    /// POSIX queues: attributes.
    mq_getsetattr = Program::new("mq_getsetattr");
    can_only_nonblock_be_changed
    are_other_flags_invalid
    does_nonblock_belong_to_the_open_description
    are_the_messages_counted
    what_descriptors_are_refused
    does_a_bad_address_give_efault
    are_the_reserved_fields_zero
}

questions! {
    /// POSIX queues: what a user is charged.
    mq_rlimit = Program::new("mq_rlimit");
    is_the_limit_800_kib_at_first
    is_the_charge_exact_to_the_byte
    is_the_charge_held_until_the_last_close
    is_the_charge_held_while_only_the_name_is_left
    how_many_queues_does_the_default_limit_allow
    does_a_lower_limit_leave_queues_alone
    are_bad_attributes_found_before_the_limit
}

/// Runs a program under every accounting model, with and without the message cache, and in the root cgroup. The kernel
/// itself checks at the end of each that nothing is left.
fn under_every_model(program: &Program) {
    for model in Model::ALL {
        for msgcache in [false, true] {
            verdict::expect_all(
                program,
                Setting {
                    model,
                    msgcache,
                    ..Setting::DEFAULT
                },
            );
        }
    }
    verdict::expect_all(
        program,
        Setting {
            msgcache: true,
            cgroup: Cgroup::Root,
            ..Setting::DEFAULT
        },
    );
}

#[test]
fn do_queues_come_and_go_under_every_model() {
    under_every_model(&Program::new("mq_unlink"));
}

#[test]
fn do_messages_keep_their_order_under_every_model() {
    under_every_model(&Program::new("mq_receive"));
}

#[test]
fn do_failed_copies_leave_nothing_under_every_model() {
    under_every_model(&Program::new("mq_memory"));
}
