//! Laws of the planner, checked from outside.
// A helper outside a #[test] function may give up like the test that calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod call;
mod cost;
mod device;
mod fabric;
mod fault;
mod forecast;
mod lanes;
mod oracle;
mod plan;
mod push;
mod topology;
mod tree;
mod words;

use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Buffers, CpuSet, Dtype, Elements, Label, Limits, Operation, Plan, PlanError,
    PlanInputs, Policy, RankHost, ReductionTree, Request, Topology, WorldSize,
};
use proptest::prelude::*;

/// A world of this size.
fn world(ranks: usize) -> WorldSize {
    WorldSize::new(ranks).unwrap()
}

/// A request without a label.
fn request(dtype: Dtype, elements: u64, buffers: Buffers) -> Request {
    Request {
        operation: Operation::Sum,
        dtype,
        elements: Elements::new(elements),
        buffers,
        label: None,
    }
}

/// A topology of so many ranks that share so many processors.
fn topology(ranks: usize, cores: Option<usize>) -> Topology {
    let cpus: CpuSet = (0..cores.unwrap_or(0)).collect();
    Topology {
        ranks: vec![
            RankHost {
                cpus,
                ..RankHost::default()
            };
            ranks
        ],
        ..Topology::default()
    }
}

/// A plan with the canonical tree.
fn compile(ranks: usize, cores: Option<usize>, algorithm: AlgorithmChoice, limits: Limits) -> Result<Plan, PlanError> {
    Plan::compile(PlanInputs {
        world: world(ranks),
        topology: &topology(ranks, cores),
        policy: Policy {
            algorithm,
            ..Policy::default()
        },
        limits,
        tree: &ReductionTree::canonical(world(ranks)),
    })
}

/// The plan of so many ranks that share so many processors, all else at the defaults.
fn plan(ranks: usize, cores: Option<usize>) -> Plan {
    compile(ranks, cores, AlgorithmChoice::Auto, Limits::default()).unwrap()
}

/// The name of what a host request gets, which is never refused.
fn decided(plan: &Plan, request: &Request) -> AlgorithmName {
    plan.decide(request).unwrap().name()
}

/// Any request of the host, short ones more often.
fn any_host_request() -> impl Strategy<Value = Request> {
    let buffers = proptest::sample::select(&Buffers::HOST[..]);
    (any_request(), buffers).prop_map(|(request, buffers)| Request { buffers, ..request })
}

/// Any request, short ones more often.
fn any_request() -> impl Strategy<Value = Request> {
    let elements = prop_oneof![0_u64..200, 0_u64..100_000, 0_u64..1 << 36, any::<u64>()];
    let label = proptest::option::of(prop_oneof![0_u64..10, any::<u64>()].prop_map(Label::new));
    (
        proptest::sample::select(&Operation::ALL[..]),
        proptest::sample::select(&Dtype::ALL[..]),
        elements.prop_map(Elements::new),
        proptest::sample::select(&Buffers::ALL[..]),
        label,
    )
        .prop_map(|(operation, dtype, elements, buffers, label)| Request {
            operation,
            dtype,
            elements,
            buffers,
            label,
        })
}

/// Any limits that can be laid out, small staging more often.
fn any_limits() -> impl Strategy<Value = Limits> {
    let pages = prop_oneof![1_u64..=8, 1_u64..=16_384];
    (pages, 0_u64..=4_096).prop_map(|(staging, shared)| {
        let bytes = |pages| lanesum_plan::Bytes::new(pages * 4096);
        Limits::new(bytes(staging), bytes(shared)).unwrap()
    })
}
