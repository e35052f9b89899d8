//! Which message a receiver wants (msgrcv(2)).

/// What `msgtyp` and `MSG_EXCEPT` of msgrcv(2) mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selector {
    /// The oldest.
    Any,
    /// The oldest of this type.
    Is(i64),
    /// The oldest of any other type.
    Except(i64),
    /// The oldest of the lowest type that is not above this.
    UpTo(i64),
}

impl Selector {
    /// From a call's arguments. Of the most negative type the opposite is the largest.
    #[inline(always)]
    pub const fn new(msgtyp: i64, except: bool) -> Selector {
        match msgtyp {
            0 => Selector::Any,
            i64::MIN..0 => Selector::UpTo(msgtyp.saturating_neg()),
            _ if except => Selector::Except(msgtyp),
            _ => Selector::Is(msgtyp),
        }
    }

    /// Whether a message of type `kind` is wanted at all.
    pub(super) const fn wants(self, kind: i64) -> bool {
        match self {
            Selector::Any => true,
            Selector::Is(wanted) => kind == wanted,
            Selector::Except(unwanted) => kind != unwanted,
            Selector::UpTo(highest) => kind <= highest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_do_the_arguments_mean() {
        assert_eq!(Selector::new(0, true), Selector::Any);
        assert_eq!(Selector::new(7, false), Selector::Is(7));
        assert_eq!(Selector::new(7, true), Selector::Except(7));
        assert_eq!(Selector::new(-7, true), Selector::UpTo(7));
        assert_eq!(Selector::new(i64::MIN, false), Selector::UpTo(i64::MAX));
        assert_eq!(Selector::new(i64::MIN + 1, false), Selector::UpTo(i64::MAX));
    }
}
