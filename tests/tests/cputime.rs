//! CPU time of tasks, processes and children: programs/cputime.c.

use tests::{Program, questions};

questions! {
    /// Clocks, getrusage(2), times(2), /proc.
    cputime = Program::new("cputime");
    is_sleep_no_cpu_time
    is_work_cpu_time
    is_time_in_the_program_the_users
    is_time_in_calls_the_systems
    does_a_threads_time_count_for_its_process_alone
    does_a_childs_time_count_when_it_is_waited_for
    does_a_forked_child_begin_with_none
    are_switches_counted
    which_clocks_of_others_can_be_read
    by_which_clocks_can_one_sleep
    does_proc_show_the_same
}
