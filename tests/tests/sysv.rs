//! System V message queues: C programs of programs/, linked with the C library as they come.

use tests::guest::on_tollgate;
use tests::{Program, Setting, questions, verdict};

questions! {
    /// System V queues: keys and ids.
    msg_get = Program::new("msg_get");
    does_a_key_lead_to_one_queue
    is_every_private_queue_a_new_one
    may_a_key_be_any_number_but_zero
    does_a_stale_id_stay_stale
    what_is_a_new_queue_like
    is_the_number_of_queues_bounded
    may_the_next_id_be_chosen
    who_may_find_a_queue
}

questions! {
    /// System V queues: sending without waiting.
    msg_send = Program::new("msg_send");
    what_types_are_there
    how_long_may_a_message_be
    is_a_queue_full_of_bytes
    is_a_queue_full_of_messages
    in_which_order_are_faults_found
    who_may_send
    does_the_queue_keep_its_own_copy
    are_times_and_senders_noted
}

questions! {
    /// System V queues: receiving without waiting.
    msg_receive = Program::new("msg_receive");
    is_the_oldest_message_taken_whatever_its_type
    is_a_type_chosen_and_avoided
    is_the_lowest_type_up_to_a_bound_chosen
    is_a_message_without_room_left_or_cut
    in_which_order_are_receivers_faults_found
    who_may_receive
    does_a_copy_leave_the_message
    what_copies_are_refused
}

questions! {
    /// System V queues: looking, changing, removing.
    msg_control = Program::new("msg_control");
    what_commands_and_ids_are_refused
    in_which_order_are_controls_faults_found
    are_the_limits_told
    are_the_totals_those_of_all_queues
    is_a_queue_found_by_its_index
    what_can_be_changed
    who_may_change_and_remove
    does_proc_tell_of_every_queue
}

questions! {
    /// System V queues: waiting.
    msg_wait = Program::new("msg_wait");
    does_a_message_go_to_the_first_receiver_that_wants_it
    is_a_message_handed_over_noted_as_received
    is_a_waiting_receiver_without_room_told
    is_a_waiting_senders_message_let_in
    does_a_long_message_wait_while_short_ones_pass
    does_removal_wake_everybody
    does_more_room_let_waiting_senders_in
    does_a_lost_right_end_a_wait
    does_a_handler_end_a_wait_for_good
    does_a_stop_not_end_a_wait
    does_a_killed_waiter_leave_its_place
}

const TORTURE: Program = Program::new("msg_torture");

questions! {
    /// System V queues under everything at once, on eight CPUs that take turns: the same every time.
    msg_torture = TORTURE.cpus(8).arguments(&["64", "2000", "1"]);
    does_everything_go_on_under_signals_and_kills
    are_the_totals_the_sum_of_the_queues
    is_no_message_lost_or_doubled
    is_nothing_left
}

/// Runs the same on CPUs that run at once.
fn torture(cpus: u32, arguments: &'static [&'static str]) {
    let setting = Setting {
        cpus,
        parallel: true,
        ..Setting::DEFAULT
    };
    verdict::expect_all(&TORTURE.arguments(arguments), setting);
}

#[test]
fn do_the_queues_stand_it_on_cpus_that_run_at_once() {
    torture(2, &["32", "1000", "2"]);
    torture(8, &["64", "1000", "3"]);
}

#[test]
#[ignore = "minutes"]
fn do_the_queues_stand_it_for_a_minute() {
    for seed in ["1", "2", "3"] {
        let arguments: &'static [&'static str] = Vec::leak(vec!["64", "60000", seed]);
        torture(8, arguments);
    }
}

/// The most instructions that a call may cost in a user's cgroup, through the C library, the counter's own two readings
/// included.
#[test]
fn does_a_message_cost_at_most_320_instructions_and_a_long_one_450() {
    let program = Program::new("msg_cost").options(&["-O2"]).arguments(&["2000"]);
    let run = verdict::run(&program, Setting::DEFAULT).unwrap_or_else(|e| panic!("{e}"));
    if !on_tollgate() {
        return;
    }
    let text = run.text();
    let lines: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| {
            let (name, ticks) = line.split_once(": ")?;
            let (_, rest) = ticks.split_once('/')?;
            Some((name, rest.split_once('/')?.0.parse().ok()?))
        })
        .collect();
    let names = ["msgsnd 16", "msgrcv 16", "msgsnd 1024", "msgrcv 1024"];
    assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), names, "{text}");
    for ((name, median), most) in lines.into_iter().zip([300, 320, 450, 450]) {
        assert!(median <= most, "{name}: {median}");
    }
}
