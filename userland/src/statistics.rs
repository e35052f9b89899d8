//! Minimum, average and maximum of a series, as the thread's program keeps them.

/// A running summary of measured durations, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    min: u64,
    max: u64,
    sum: u64,
    count: u64,
}

impl Summary {
    /// Of nothing yet.
    pub const fn new() -> Summary {
        Summary {
            min: u64::MAX,
            max: 0,
            sum: 0,
            count: 0,
        }
    }

    /// Adds one duration.
    #[inline(always)]
    pub fn add(&mut self, duration: u64) {
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
        self.sum += duration;
        self.count += 1;
    }

    /// All durations together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The shortest; 0 of an empty series.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The mean, rounded down as the thread's program rounds it; 0 of an empty series.
    pub fn avg(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// The longest; 0 of an empty series.
    pub fn max(&self) -> u64 {
        self.max
    }
}

impl Default for Summary {
    fn default() -> Summary {
        Summary::new()
    }
}
