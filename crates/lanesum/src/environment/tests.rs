//! The environment as launchers set it, and as accidents leave it.
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Identity, EnvironmentError> {
    identity(&|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

const TORCH: [(&str, &str); 4] = [
    ("RANK", "3"),
    ("WORLD_SIZE", "8"),
    ("LOCAL_RANK", "3"),
    ("TORCHELASTIC_RUN_ID", "7f3a"),
];

#[test]
fn torchrun() {
    let found = read(&TORCH).unwrap();
    let expected = Identity {
        rank: 3,
        world: 8,
        local_rank: Some(3),
        rendezvous: "torchrun-7f3a".to_owned(),
        deadline: None,
    };
    assert_eq!(found, expected);
}

#[test]
fn open_mpi_of_both_kinds() {
    let ranks = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ];
    let five = read(&[&ranks[..], &[("PMIX_NAMESPACE", "prterun-host-99@1")]].concat()).unwrap();
    assert_eq!(five.rendezvous, "pmix-prterun-host-99@1");
    assert_eq!((five.rank, five.world, five.local_rank), (1, 2, Some(1)));
    let four = read(&[&ranks[..], &[("OMPI_MCA_ess_base_jobid", "337")]].concat()).unwrap();
    assert_eq!(four.rendezvous, "ompi-337");
}

#[test]
fn pmi_launchers_and_slurm() {
    let ranks = [("PMI_RANK", "0"), ("PMI_SIZE", "4")];
    let with = |more: &[(&'static str, &'static str)]| read(&[&ranks[..], more].concat());
    assert_eq!(with(&[("PMI_JOBID", "12.0")]).unwrap().rendezvous, "pmi-12.0");
    assert_eq!(with(&[("I_MPI_HYDRA_UUID", "9d26")]).unwrap().rendezvous, "impi-9d26");
    assert_eq!(with(&[("SLURM_JOB_ID", "5")]).unwrap().rendezvous, "slurm-5");
    assert_eq!(
        with(&[("SLURM_JOB_ID", "5"), ("SLURM_STEP_ID", "2")])
            .unwrap()
            .rendezvous,
        "slurm-5.2"
    );
    assert_eq!(with(&[("SLURM_JOB_ID", "5")]).unwrap().local_rank, None);
}

#[test]
fn the_name_given_by_hand_comes_first() {
    let found = read(&[&TORCH[..], &[("LANESUM_RENDEZVOUS", "mine / yours")]].concat()).unwrap();
    assert_eq!(found.rendezvous, "mine / yours");
}

#[test]
fn a_job_id_of_another_launcher_is_not_taken() {
    let inherited = [("RANK", "0"), ("WORLD_SIZE", "2"), ("PMIX_NAMESPACE", "outer@1")];
    assert!(matches!(read(&inherited), Err(EnvironmentError::NoRendezvous { .. })));
}

#[test]
fn torchrun_without_a_run_id_meets_by_its_port() {
    let plain = [("TORCHELASTIC_RUN_ID", "none"), ("MASTER_PORT", "29500")];
    let ranks = [("RANK", "0"), ("WORLD_SIZE", "2")];
    assert_eq!(
        read(&[&ranks[..], &plain].concat()).unwrap().rendezvous,
        "torch-port-29500"
    );
}

#[test]
fn without_a_name_the_error_says_what_to_set() {
    for unset in ["none", ""] {
        let error = read(&[("RANK", "0"), ("WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", unset)]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("TORCHELASTIC_RUN_ID, MASTER_PORT, SLURM_JOB_ID"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("LANESUM_RENDEZVOUS"), "{error:?}");
    }
    let alone = read(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap();
    assert_eq!(alone.rendezvous, "alone");
}

#[test]
fn launchers_that_disagree_are_refused_by_name_and_value() {
    let mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "8")];
    let error = read(&[&TORCH[..], &mpi].concat()).unwrap_err();
    assert_eq!(error.to_string(), "RANK is 3, but OMPI_COMM_WORLD_RANK is 2");
    let error = read(&[&TORCH[..], &[("PMI_RANK", "3"), ("PMI_SIZE", "4")]].concat()).unwrap_err();
    assert_eq!(error.to_string(), "WORLD_SIZE is 8, but PMI_SIZE is 4");
    let local = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
    ];
    let error = read(&[&TORCH[..], &local].concat()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "LOCAL_RANK is 3, but OMPI_COMM_WORLD_LOCAL_RANK is 0"
    );
    assert!(read(&[&TORCH[..], &[("PMI_RANK", "3"), ("PMI_SIZE", "8")]].concat()).is_ok());
}

#[test]
fn half_an_identity_is_refused() {
    assert_eq!(read(&[]), Err(EnvironmentError::NoRank));
    let error = read(&[("RANK", "0")]).unwrap_err();
    assert_eq!(error.to_string(), "RANK is set to \"0\", but WORLD_SIZE is not set");
    let error = read(&[("PMI_SIZE", "2")]).unwrap_err();
    assert_eq!(error.to_string(), "PMI_SIZE is set to \"2\", but PMI_RANK is not set");
}

#[test]
fn values_are_parsed() {
    for wrong in ["", " 1", "+1", "-1", "1.0", "one", "99999999999999999999999"] {
        let error = read(&[("RANK", wrong), ("WORLD_SIZE", "8")]).unwrap_err();
        assert!(
            matches!(error, EnvironmentError::Invalid { name: "RANK", .. }),
            "{wrong}: {error}"
        );
    }
    let error = read(&[("RANK", "0"), ("WORLD_SIZE", "0")]).unwrap_err();
    assert!(
        matches!(error, EnvironmentError::Invalid { name: "WORLD_SIZE", .. }),
        "{error}"
    );
    let error = read(&[("RANK", "8"), ("WORLD_SIZE", "8")]).unwrap_err();
    assert!(
        matches!(error, EnvironmentError::OutsideWorld { rank: 8, world: 8, .. }),
        "{error}"
    );
    let error = read(&[&TORCH[..], &[("LANESUM_RENDEZVOUS", "")]].concat()).unwrap_err();
    assert!(
        matches!(
            error,
            EnvironmentError::Invalid {
                name: "LANESUM_RENDEZVOUS",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_without_panic() {
    let raw = || Some(OsString::from_vec(vec![0xff, 0xfe]));
    assert!(identity(&|_| raw()).is_err());
    let named = |name: &str| match name {
        "RANK" => Some("0".into()),
        "WORLD_SIZE" => Some("2".into()),
        "LANESUM_RENDEZVOUS" => raw(),
        _ => None,
    };
    assert!(matches!(
        identity(&named),
        Err(EnvironmentError::Invalid {
            name: "LANESUM_RENDEZVOUS",
            ..
        })
    ));
}

#[test]
fn the_deadline_is_in_milliseconds() {
    let with = |value| read(&[&TORCH[..], &[("LANESUM_DEADLINE_MS", value)]].concat());
    assert_eq!(with("250").unwrap().deadline, Some(Duration::from_millis(250)));
    for wrong in ["0", "30s", "", "+5", "2073600001", "99999999999999999999"] {
        assert!(
            matches!(
                with(wrong),
                Err(EnvironmentError::Invalid {
                    name: "LANESUM_DEADLINE_MS",
                    ..
                })
            ),
            "{wrong}"
        );
    }
}

#[test]
fn every_variable_that_is_read_is_in_the_list_and_the_other_way_round() {
    let asked = RefCell::new(BTreeSet::new());
    let all_launchers = identity(&|name| {
        asked.borrow_mut().insert(name.to_owned());
        let number = ["RANK", "SIZE"].iter().any(|part| name.ends_with(part));
        match (number, name) {
            (true, _) if name.ends_with("SIZE") => Some("2".into()),
            (true, _) => Some("0".into()),
            (false, "SLURM_JOB_ID" | "SLURM_STEP_ID") => Some("5".into()),
            (false, _) => None,
        }
    });
    assert_eq!(all_launchers.unwrap().rendezvous, "slurm-5.5");
    let mut listed: BTreeSet<String> = VARIABLES.iter().map(|variable| variable.name.to_owned()).collect();
    assert_eq!(listed.len(), VARIABLES.len());
    // Set-up asks for these, whoever made the builder.
    let unset = nccl_wishes(&|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    assert_eq!(unset, lanesum_plan::NcclWishes::default());
    // Engines do, and torch.distributed.
    let free = policy(&|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    assert_eq!(free, Ok(None));
    // The rendezvous room reads this one.
    assert!(listed.remove("XDG_RUNTIME_DIR"));
    assert_eq!(asked.into_inner(), listed);
}

#[test]
fn the_switch_is_read_by_value() {
    let said = |value: &'static str| enabled(&move |name| (name == "LANESUM").then(|| value.into()));
    for yes in ["1", "on", "TRUE", "yes", ""] {
        assert_eq!(said(yes), Ok(true), "{yes}");
    }
    for no in ["0", "off", "False", "no"] {
        assert_eq!(said(no), Ok(false), "{no}");
        let error = read(&[("LANESUM", no), ("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap_err();
        assert_eq!(error, EnvironmentError::Off { value: no.to_owned() });
        assert!(error.to_string().contains(no) && error.hint().is_some_and(|hint| hint.contains("LANESUM")));
    }
    for nonsense in ["2", " 0", "00", "disabled"] {
        assert!(
            matches!(said(nonsense), Err(EnvironmentError::Invalid { name: "LANESUM", .. })),
            "{nonsense}"
        );
    }
}

#[test]
fn the_policy_is_read_by_value() {
    let said = |value: &'static str| policy(&move |name| (name == "LANESUM_POLICY").then(|| value.into()));
    assert_eq!(said("exact"), Ok(Some(lanesum_plan::Preference::Exact)));
    assert_eq!(said("Fastest"), Ok(Some(lanesum_plan::Preference::Fastest)));
    assert_eq!(said(""), Ok(None));
    assert!(matches!(
        said("nccl"),
        Err(EnvironmentError::Invalid {
            name: "LANESUM_POLICY",
            ..
        })
    ));
}
