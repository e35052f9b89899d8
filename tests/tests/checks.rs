//! In which order calls look at their arguments, and what they leave done: programs/checks.c.

use tests::{Program, questions};

questions! {
    /// Mistakes, and what is told of them.
    checks = Program::new("checks");
    is_the_part_done_that_fits
    may_a_pending_set_be_short
    is_who_is_meant_looked_for_before_the_signal
    is_the_number_of_buffers_32_bits_wide
    in_which_order_does_prlimit_look
    can_another_processs_limits_be_set
    are_the_upper_halves_of_flags_looked_at
    can_several_areas_shrink_together
    are_files_large
    which_futex_operations_take_the_real_time
}
