//! The battery clock (MC146818): what time it is at boot.

use x86_64::instructions::port::Port;

fn register(number: u8) -> u8 {
    // SAFETY: the clock's index and data ports, or nobody's. Bit 7 of the index keeps NMIs off for the moment; the next
    // access lets them in again.
    unsafe {
        Port::new(0x70).write(number);
        Port::new(0x71).read()
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant, "days_from_civil").
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year / 400;
    let year_of_era = year % 400;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Seconds since 1970-01-01 00:00 (the clock is taken to show UTC); 0 where there is no clock, or it shows nonsense.
pub fn read() -> u64 {
    const UPDATE_IN_PROGRESS: u8 = 0x80;
    const BINARY: u8 = 4;
    const HOURS_24: u8 = 2;
    let sample = || {
        // An update takes 2 ms at most; a clock that is never ready is none.
        (0..100_000).find(|_| register(0xa) & UPDATE_IN_PROGRESS == 0)?;
        Some([0, 2, 4, 7, 8, 9, 0x32].map(register))
    };
    // Read until two samples agree: an update may fall into one.
    let mut last = sample();
    let settled = (0..10).find_map(|_| {
        let before = core::mem::replace(&mut last, sample());
        (before == last).then_some(last?)
    });
    let Some(raw) = settled else {
        return 0;
    };
    let format = register(0xb);
    let decode = |value: u8| {
        if format & BINARY != 0 {
            u64::from(value)
        } else {
            u64::from(value >> 4) * 10 + u64::from(value & 15)
        }
    };
    let [second, minute, _, day, month, year, century] = raw.map(decode);
    let mut hour = decode(raw[2] & 0x7f);
    if format & HOURS_24 == 0 {
        hour = hour % 12 + if raw[2] & 0x80 != 0 { 12 } else { 0 };
    }
    // Where the century's register is something else, the century is this one.
    let year = if (19..=29).contains(&century) {
        century * 100 + year
    } else {
        2000 + year
    };
    let plausible = second < 62 && minute < 60 && hour < 24 && (1..=31).contains(&day) && (1..=12).contains(&month);
    if !plausible || year < 1970 {
        return 0;
    }
    ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
}
