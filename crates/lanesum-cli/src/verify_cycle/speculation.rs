//! What the cost of a sum means for speculative decoding: a few divisions, in one place.
//!
//! A plain step computes one token and makes `sums` all-reduces of one token's activations. A speculative step drafts,
//! verifies several tokens at once with as many all-reduces of more bytes, and yields `accepted` tokens on average.
//! Speculation pays where `accepted` exceeds the ratio of the two steps. The two kinds of sums move different numbers of
//! bytes, so their costs are separate inputs; where both are measured, both come from the same engine.

use serde::Serialize;

/// What a step costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Inputs {
    /// All-reduces of one step.
    pub sums: u64,
    /// Compute of one step without its sums.
    pub compute_ms: f64,
    /// The draft model's share of a speculative step.
    pub draft_ms: f64,
    /// Tokens that a speculative step yields on average.
    pub accepted: f64,
    /// One sum of a speculative step.
    pub verify_sum_us: f64,
    /// One sum of a plain step.
    pub plain_sum_us: f64,
}

/// The case this library was started for: sums over PCIe at about 200 us made speculation slower than plain decoding.
pub const KNOWN: Inputs = Inputs {
    sums: 122,
    compute_ms: 4.6,
    draft_ms: 1.0,
    accepted: 1.644,
    verify_sum_us: 200.0,
    plain_sum_us: 53.4,
};

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// One speculative step.
    pub step_ms: f64,
    /// One plain step.
    pub plain_step_ms: f64,
    /// Speed with speculation.
    pub tokens_per_s: f64,
    /// Speed without.
    pub plain_tokens_per_s: f64,
    /// Speculation pays above this many tokens a step.
    pub break_even_accepted: f64,
}

/// The whole arithmetic. A step that costs nothing at all has no speed; JSON then shows null.
pub fn judge(inputs: &Inputs) -> Outcome {
    let sums_ms = |each_us: f64| inputs.sums as f64 * each_us / 1000.0;
    let step_ms = inputs.draft_ms + inputs.compute_ms + sums_ms(inputs.verify_sum_us);
    let plain_step_ms = inputs.compute_ms + sums_ms(inputs.plain_sum_us);
    Outcome {
        step_ms,
        plain_step_ms,
        tokens_per_s: inputs.accepted * 1000.0 / step_ms,
        plain_tokens_per_s: 1000.0 / plain_step_ms,
        break_even_accepted: step_ms / plain_step_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() < 0.05
    }

    #[test]
    fn the_known_case_comes_out_as_it_was_measured() {
        let outcome = judge(&KNOWN);
        assert!(near(outcome.step_ms, 30.0), "{outcome:?}");
        assert!(near(outcome.tokens_per_s, 54.8), "{outcome:?}");
        assert!(near(outcome.plain_tokens_per_s, 90.0), "{outcome:?}");
        assert!(near(outcome.break_even_accepted, 2.70), "{outcome:?}");
    }

    #[test]
    fn at_the_break_even_both_are_equally_fast() {
        let break_even = judge(&KNOWN).break_even_accepted;
        let outcome = judge(&Inputs {
            accepted: break_even,
            ..KNOWN
        });
        assert!((outcome.tokens_per_s - outcome.plain_tokens_per_s).abs() < 1e-9);
    }

    #[test]
    fn cheap_sums_make_speculation_pay() {
        let outcome = judge(&Inputs {
            verify_sum_us: 5.0,
            plain_sum_us: 3.0,
            ..KNOWN
        });
        assert!(outcome.tokens_per_s > outcome.plain_tokens_per_s);
        assert!(outcome.break_even_accepted < KNOWN.accepted);
    }

    #[test]
    fn a_step_without_cost_is_no_panic() {
        let nothing = Inputs {
            compute_ms: 0.0,
            draft_ms: 0.0,
            verify_sum_us: 0.0,
            plain_sum_us: 0.0,
            ..KNOWN
        };
        assert!(!judge(&nothing).tokens_per_s.is_finite());
        assert!(serde_json::to_value(judge(&nothing)).expect("is written")["tokens_per_s"].is_null());
    }
}
