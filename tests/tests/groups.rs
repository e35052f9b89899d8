//! Who a process acts for: C programs of programs/.

use tests::{Program, questions};

questions! {
    /// Supplementary groups.
    groups = Program::new("groups");
    are_groups_kept_in_order_and_inherited
    what_does_setgroups_refuse
    do_groups_give_their_rights
}
