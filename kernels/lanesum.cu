// Every kernel that exists, for one world size: LANESUM_WORLD is given by the compiler's command line, so that a communicator
// loads only what it can call. The list below makes the entries; names are `<algorithm>_w<world>_<dtype>_<operation>`.
#include "chunks.cuh"
#include "notice.cuh"
#include "two_shot_push.cuh"

#define LANESUM_NAME_(algorithm, world, dtype, operation) algorithm##_w##world##_##dtype##_##operation
#define LANESUM_NAME(algorithm, world, dtype, operation) LANESUM_NAME_(algorithm, world, dtype, operation)

#define LANESUM_ENTRY(algorithm, Algorithm, dtype, D, operation, O)                              \
    LANESUM_KERNEL(LANESUM_NAME(algorithm, LANESUM_WORLD, dtype, operation), Launch, LANESUM_THREADS) {           \
        typedef Algorithm<LANESUM_WORLD, D, O, GUARD_ALL> Guarded;                               \
        run<Guarded, LANESUM_WORLD, D, GUARD_ALL>(launch);                                       \
    }
#define LANESUM_OPERATIONS(algorithm, Algorithm, dtype, D)        \
    LANESUM_ENTRY(algorithm, Algorithm, dtype, D, sum, SUM)       \
    LANESUM_ENTRY(algorithm, Algorithm, dtype, D, max, MAX)       \
    LANESUM_ENTRY(algorithm, Algorithm, dtype, D, min, MIN)
#define LANESUM_DTYPES(algorithm, Algorithm)                  \
    LANESUM_OPERATIONS(algorithm, Algorithm, f32, F32)        \
    LANESUM_OPERATIONS(algorithm, Algorithm, f16, F16)        \
    LANESUM_OPERATIONS(algorithm, Algorithm, bf16, BF16)

LANESUM_DTYPES(one_shot_push, OneShotPush)
#if LANESUM_WORLD > 1
LANESUM_DTYPES(two_shot_push, TwoShotPush)

// One for all dtypes and operations.
#define LANESUM_CHUNKS__(world) chunks_w##world
#define LANESUM_CHUNKS_(world) LANESUM_CHUNKS__(world)
LANESUM_KERNEL(LANESUM_CHUNKS_(LANESUM_WORLD), Launch, LANESUM_THREADS_MANY) {
    run_chunks<Chunks<LANESUM_WORLD, LANESUM_WORLD == 2>, LANESUM_WORLD>(launch);
}
#endif

LANESUM_KERNEL(lanesum_farewell, Notice, LANESUM_THREADS) { farewell(launch); }
LANESUM_KERNEL(lanesum_prove, Notice, LANESUM_THREADS) { prove(launch); }
