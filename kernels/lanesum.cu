// Every kernel that exists, for one world size: LANESUM_WORLD is given by the compiler's command line, so that a communicator
// loads only what it can call. The list below makes the entries; names are `<algorithm>_w<world>_<dtype>_<operation>`.
#include "notice.cuh"
#include "one_shot_push.cuh"

#define LANESUM_NAME_(algorithm, world, dtype, operation) algorithm##_w##world##_##dtype##_##operation
#define LANESUM_NAME(algorithm, world, dtype, operation) LANESUM_NAME_(algorithm, world, dtype, operation)

#define LANESUM_ENTRY(algorithm, dtype, D, operation, O)                                 \
    LANESUM_KERNEL(LANESUM_NAME(algorithm, LANESUM_WORLD, dtype, operation), Launch) {   \
        algorithm<LANESUM_WORLD, D, O>(launch);                                          \
    }
#define LANESUM_OPERATIONS(algorithm, dtype, D)        \
    LANESUM_ENTRY(algorithm, dtype, D, sum, SUM)       \
    LANESUM_ENTRY(algorithm, dtype, D, max, MAX)       \
    LANESUM_ENTRY(algorithm, dtype, D, min, MIN)
#define LANESUM_DTYPES(algorithm)                  \
    LANESUM_OPERATIONS(algorithm, f32, F32)        \
    LANESUM_OPERATIONS(algorithm, f16, F16)        \
    LANESUM_OPERATIONS(algorithm, bf16, BF16)

LANESUM_DTYPES(one_shot_push)

LANESUM_KERNEL(lanesum_farewell, Notice) { farewell(launch); }
LANESUM_KERNEL(lanesum_prove, Notice) { prove(launch); }
