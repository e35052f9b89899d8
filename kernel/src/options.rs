//! The kernel's command line: words of the form `key=value`.
//!
//! An unknown key or value is refused with a message that names it and what is possible; the run then ends as a failure,
//! since a run under other options than were asked for would be worse.

use core::fmt;
use percpu::Counting;

/// The accounting models' names, in the order of their history.
pub const ACCOUNTING: [&str; 6] = ["off", "page", "object", "task-stock", "local-lock", "scoped"];
/// Timer ticks a second that the clock can make.
pub const TICK_RANGE: core::ops::RangeInclusive<u32> = 10..=10_000;

/// What the command line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The accounting model: one of [`ACCOUNTING`].
    pub accounting: &'static str,
    /// Whether queues have a message cache.
    pub msgcache: bool,
    /// Whether the first program runs in the cgroup `/u` (the root's child) and not in the root.
    pub user_cgroup: bool,
    /// Whether the log has COM2 to itself.
    pub log_com2: bool,
    /// Timer ticks a second.
    pub tick: u32,
    /// How a namespace's messages and bytes are counted.
    pub counters: Counting,
    /// Whether the run shows the races of the unsafe counters instead of running a program.
    pub races: bool,
    /// Whether the run ends where a CPU that the firmware lists cannot be had.
    pub all_cpus: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            accounting: "scoped",
            msgcache: false,
            user_cgroup: true,
            log_com2: false,
            tick: 1000,
            counters: Counting::Local,
            races: false,
            all_cpus: false,
        }
    }
}

/// What is wrong with a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error<'a> {
    /// It is not text.
    NotText,
    /// A word whose key is not one of ours.
    UnknownKey(&'a str),
    /// A key of ours with a value that is not possible.
    BadValue {
        /// The key.
        key: &'a str,
        /// The value.
        value: &'a str,
    },
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::NotText => f.write_str("it is not UTF-8"),
            Error::UnknownKey(word) => write!(
                f,
                "'{}' is unknown; possible are accounting= msgcache= cgroup= log= tick= cpus= counters= show=",
                word.escape_debug()
            ),
            Error::BadValue { key, value } => {
                write!(f, "{key} cannot be '{}'; possible are ", value.escape_debug())?;
                match key {
                    "accounting" => f.write_str("off, page, object, task-stock, local-lock and scoped"),
                    "msgcache" => f.write_str("on and off"),
                    "cgroup" => f.write_str("user and root"),
                    "log" => f.write_str("com2"),
                    "cpus" => f.write_str("any and all"),
                    "counters" => f.write_str(Counting::NAMES),
                    "show" => f.write_str("races"),
                    _ => write!(f, "{} to {}", TICK_RANGE.start(), TICK_RANGE.end()),
                }
            }
        }
    }
}

impl Options {
    /// Reads a command line. A key that comes twice counts as it comes last.
    pub fn parse(command_line: &[u8]) -> Result<Options, Error<'_>> {
        let text = core::str::from_utf8(command_line).map_err(|_| Error::NotText)?;
        let mut options = Options::default();
        for word in text.split_ascii_whitespace() {
            let (key, value) = word.split_once('=').ok_or(Error::UnknownKey(word))?;
            let bad = Error::BadValue { key, value };
            match key {
                "accounting" => options.accounting = ACCOUNTING.into_iter().find(|&name| name == value).ok_or(bad)?,
                "msgcache" => options.msgcache = choose(value, "off", "on").ok_or(bad)?,
                "cgroup" => options.user_cgroup = choose(value, "root", "user").ok_or(bad)?,
                "log" => options.log_com2 = (value == "com2").then_some(true).ok_or(bad)?,
                "cpus" => options.all_cpus = choose(value, "any", "all").ok_or(bad)?,
                "counters" => options.counters = Counting::parse(value).ok_or(bad)?,
                "show" => options.races = (value == "races").then_some(true).ok_or(bad)?,
                "tick" => {
                    let hz = value.parse().ok().filter(|hz| TICK_RANGE.contains(hz));
                    options.tick = hz.ok_or(bad)?;
                }
                _ => return Err(Error::UnknownKey(word)),
            }
        }
        Ok(options)
    }

    /// Where the log goes, whatever else is wrong with the command line: for the message that says so.
    pub fn wants_com2(command_line: &[u8]) -> bool {
        command_line
            .split(|byte| byte.is_ascii_whitespace())
            .any(|word| word == b"log=com2")
    }
}

fn choose(value: &str, no: &str, yes: &str) -> Option<bool> {
    if value == yes {
        Some(true)
    } else {
        (value == no).then_some(false)
    }
}
