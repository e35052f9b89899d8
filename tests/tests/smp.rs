//! Several CPUs: what they promise each other, and whether everything else holds with them too.

use tests::guest::on_tollgate;
use tests::{Program, Setting, questions, verdict};

const SMP: Program = Program::new("smp").cpus(4);

questions! {
    /// Four CPUs that take turns: the same interleaving each time.
    four_cpus = super::SMP;
    does_a_task_go_where_its_affinity_says
    is_affinity_inherited
    what_affinities_are_refused
    do_threads_meet
    do_busy_threads_spread_over_the_cpus
    what_policies_are_refused
    is_a_policy_kept_and_inherited
    does_a_fifo_thread_keep_lower_ones_away
    does_an_unmapped_page_go_on_every_cpu
    does_a_lost_right_hold_on_every_cpu
    is_a_childs_memory_of_one_moment
    do_threads_map_memory_side_by_side
    does_a_signal_reach_a_thread_that_never_calls_the_kernel
    does_exit_end_threads_on_other_cpus
    does_a_mutex_lose_nothing
    does_everybody_pass_a_barrier
    do_pipes_carry_a_token_around_a_ring
    does_a_queue_lose_or_double_nothing
    can_many_processes_come_and_go
    can_many_threads_come_and_go
}

/// Virtual CPUs that run at the same time, and a kernel that checks itself.
fn parallel(cpus: u32) -> Setting {
    Setting {
        cpus,
        parallel: true,
        checked: true,
        ..Setting::DEFAULT
    }
}

#[test]
fn does_it_hold_on_one_cpu() {
    verdict::expect_all(&SMP, parallel(1));
}

#[test]
fn does_it_hold_on_two_cpus_at_once() {
    verdict::expect_all(&SMP, parallel(2));
}

#[test]
fn does_it_hold_on_four_cpus_at_once() {
    verdict::expect_all(&SMP, parallel(4));
}

#[test]
fn does_it_hold_on_eight_cpus_at_once() {
    verdict::expect_all(&SMP, parallel(8));
}

#[test]
fn does_everything_else_hold_on_several_cpus() {
    for source in [
        "threads",
        "signals",
        "processes",
        "memory",
        "ready",
        "mq_timeout",
        "mq_unlink",
    ] {
        verdict::expect_all(&Program::new(source), parallel(4));
    }
}

#[test]
fn are_sixteen_cpus_used() {
    if on_tollgate() {
        let run = verdict::run(&Program::new("hello"), parallel(16)).expect("a boot with sixteen CPUs");
        let boot = run.control.boot.expect("the kernel says how it booted");
        assert_eq!(boot["cpus"], "16");
    }
}
