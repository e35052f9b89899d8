//! Tests of POSIX queues: as questions, against a model, and on several CPUs.
