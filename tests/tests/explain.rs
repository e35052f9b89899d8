//! Where the instructions of a call go: all of them are found, and the phases are those of the design.

use tests::guest::{built, in_full};
use tollgate::explain::{self, CALLS, Profile};
use tollgate::model::{Model, RowKey};
use tollgate::preflight;
use tollgate::qemu::OneByOne;

fn profiles(model: Model, msgcache: bool) -> [Profile; 3] {
    let run = || {
        let built = built()?;
        let one = OneByOne::of(&preflight::check(None)?.qemu_version);
        let folder = tempfile::tempdir()?;
        explain::run(
            &built.machine,
            one,
            &built.guest,
            RowKey { model, msgcache },
            folder.path(),
        )
    };
    run().unwrap_or_else(|error: anyhow::Error| panic!("{}", in_full(&error)))
}

/// That the trace is as long as the program's own figure, `explain::run` holds itself; here, that the phases and the
/// stacks each add up to it, and what is in them.
#[test]
fn do_the_phases_have_every_instruction_of_the_call() {
    let (object, cached) = (profiles(Model::Object, false), profiles(Model::Object, true));
    for profile in object.iter().chain(&cached) {
        assert_eq!(profile.total(), profile.stacks.values().sum::<u64>());
        for phase in ["program", "entry", "exit"] {
            assert!(profile.phases[phase] > 0, "{phase}: {profile:?}");
        }
    }
    let paying = ["freelist", "objcg", "stock", "statistics"];
    for call in 0..2 {
        for phase in paying {
            assert!(object[call].phases.contains_key(phase), "{} {phase}", CALLS[call]);
            assert!(
                !cached[call].phases.contains_key(phase),
                "{} with the cache: {phase}",
                CALLS[call]
            );
        }
        // The same bytes are copied, and the same queue used, whoever pays.
        assert_eq!(object[call].phases["copy"], cached[call].phases["copy"]);
        assert!(object[call].phases["queue"] > 0);
    }
    assert!(!object[2].phases.contains_key("queue"), "getppid: {:?}", object[2]);
}
