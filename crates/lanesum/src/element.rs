//! Types that can be summed.

use lanesum_plan::Dtype;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// An element of a tensor: `f32`, [`half::f16`] or [`half::bf16`]. Sealed: any bytes are a valid value of
/// each, and each has the layout that its [`Dtype`] names.
pub trait Element: Copy + Default + Send + lanesum_cuda::Scalar + sealed::Sealed + 'static {
    /// Its dtype.
    const DTYPE: Dtype;
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
}

impl Element for half::f16 {
    const DTYPE: Dtype = Dtype::F16;
}

impl Element for half::bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
}
