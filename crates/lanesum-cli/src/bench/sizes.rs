//! The sizes of a bench, whatever it times.

use lanesum_plan::Dtype;

use crate::errors::CliError;

/// The largest message: every rank holds a few of them.
const MESSAGE_MAX: u64 = 256 << 20;

/// What was asked for or the default, ascending, each once; all are whole elements of each type.
pub fn checked(asked: &[u64], default: &[u64], dtypes: &[Dtype]) -> Result<Vec<u64>, CliError> {
    let mut sizes = if asked.is_empty() { default } else { asked }.to_vec();
    for &dtype in dtypes {
        let element = dtype.size() as u64;
        let odd = |bytes: &&u64| !bytes.is_multiple_of(element) || **bytes > MESSAGE_MAX;
        if let Some(bytes) = sizes.iter().find(odd) {
            return Err(CliError::Usage {
                cause: format!(
                    "--sizes {bytes}: a size is a multiple of the {element} bytes of {dtype}, and at most {} MiB",
                    MESSAGE_MAX >> 20
                ),
                hint: "take the next multiple, or --dtype f32".into(),
            });
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_elements_in_order() {
        let sizes = |asked: &[u64]| checked(asked, &[8192], &[Dtype::Bf16, Dtype::F32]);
        assert_eq!(sizes(&[1 << 20, 8192, 8192]).expect("fit"), [8192, 1 << 20]);
        assert_eq!(sizes(&[]).expect("fit"), [8192]);
        for wrong in [43_009, 43_010, 1 << 30] {
            let error = sizes(&[wrong]).expect_err("does not fit");
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&wrong.to_string()), "{error}");
        }
    }
}
