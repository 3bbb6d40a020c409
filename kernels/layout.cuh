// Memory that host and device, or two ranks, share. Each structure has a twin of the same name in
// crates/lanesum-cuda/src/layout.rs; both sides assert the same sizes and offsets.
#pragma once
#include "platform.cuh"

// The most ranks that kernels serve, lanes of a communicator, and threads of a block: kernels of many ranks need more registers.
#define LANESUM_WORLD_MAX 8
#define LANESUM_LANES_MAX 32
#define LANESUM_THREADS_FEW 768
#define LANESUM_THREADS_MANY 512
#define LANESUM_THREADS (LANESUM_WORLD <= 4 ? LANESUM_THREADS_FEW : LANESUM_THREADS_MANY)
// Words that a proof of peer access writes for each pair.
#define LANESUM_PROOF_WORDS 512

// A lane is one block of every rank: it has epochs, headers and inboxes of its own, so no lane ever waits for another.
struct Lane {
    u64 word;    // epoch of the next exchange, and LANE_* bits
    u64 ticket;  // of the last eager call that it has finished
};
#define LANE_RUNNING (1ull << 63)   // a block is in a call
#define LANE_POISONED (1ull << 62)  // a call has failed: calls write NaN and return. In all lanes, of lane 0 first
#define LANE_ENDED (1ull << 61)     // the communicator has ended: calls write NaN and return
#define LANE_EPOCH ((1ull << 60) - 1)

// State of a rank that only its own device writes.
struct Local {
    Lane lanes[LANESUM_LANES_MAX];
    u64 barren;                        // exchanges of lane 0 that ended no call well: all but the last of a call, and failed ones
    u64 waited_ns[LANESUM_WORLD_MAX];  // for each peer that was not there yet, by lane 0
    u64 ignored[7];
};

// What a rank tells of its first fault: twin of the host's record. Words that nobody reads before `state` is FILLED.
struct Record {
    u64 state;  // EMPTY or FILLED; released last
    u64 kind;   // KIND_*
    u64 by;     // rank that noticed
    u64 ranks;  // bits of the ranks concerned
    u64 epoch;
    u64 waited_us;
    u64 phase;     // PHASE_*
    u64 ours[4];   // the call of `by`
    u64 theirs[4]; // the call it was compared with
    u64 call[4];   // the call of the rank that passes this on
    u64 ticket;    // of that call, or of the first eager one after it if it was captured; 0 in alerts
};

// Host memory that this rank's device reads and writes across the bus, in cold paths and once a call.
struct Mapped {
    u64 echo;         // low halves of lane 0's ticket (low) and epoch (high) of the last call it finished
    u64 spoilt;       // of the eager calls whose output got NaN, the first one's ticket; 0 if there is none
    u64 ignored[6];
    u64 lost;         // bits of ranks whose process has ended; the host writes
    u64 deadline_ns;  // of a wait; the host writes
    u64 ignored2[6];
    Record record;    // the first fault
    u64 ignored3[12];
};

// Memory of a rank that its peers write and only it reads. `data` of [leaves][2 halves][lanes][slots] frames follows, two words
// each: a region for each leaf, where a lane has one slot for that rank's header and at least `capacity` for its frames. What calls
// use is ordered by the leaves of the tree; ranks are named where something goes wrong.
struct Inbox {
    Record alerts[LANESUM_WORLD_MAX];  // by rank: why a peer has failed
    u64 ignored[352];
    u64 proof[LANESUM_WORLD_MAX][LANESUM_PROOF_WORDS];
    u64 data[2];
};

// One call, by value. First what every call reads, then what is for some.
struct Launch {
    const u8* input;
    u8* output;
    Local* local;
    u32 once;        // not 0: one exchange, at most one frame (of each shard) for each thread but the first, whole words in aligned
                     // memory, canonical
    u32 share;       // frames of each lane but the last
    u32 words;       // of the message, if `once`
    u32 digest;
    u32 half_bytes;  // of a region
    u32 lane_bytes;  // of a lane in a half of a region
    u32 pause_ns;    // from the pushes to the first poll; 0 where polls cost nothing
    u32 position;    // of this rank among the leaves of the tree
    u64 ticket;      // from 1, ascending; 0 for a call that is part of a graph
    // By leaf: the region where this rank writes frames for that leaf, and the one where it reads that leaf's frames, which it
    // writes only to sweep. For its own leaf both are the place where its own frames stand, in its inbox or anywhere else. Aligned,
    // so that kernels load two at once.
    alignas(16) u8* targets[LANESUM_WORLD_MAX];
    alignas(16) u8* sources[LANESUM_WORLD_MAX];
    u64 elements;
    u64 frames;       // of the message, the last of which may be cut off
    u32 tail;         // frames of the last lane
    u32 plain_share;  // of a share, the first frames, which are whole; 0 if input or output is not aligned to 4 bytes
    u32 plain_tail;   // the same of the last lane
    u32 capacity;     // frames from each rank that a lane takes in one exchange; even
    u32 canonical;    // not 0: the tree is canonical, and `program` need not be read
    u32 rank;         // this one
    u32 lanes;        // of the communicator, not of this call
    u32 kind;         // of kernels that serve any: dtype in the upper bits, operation in the lower four
    u64 call[4];      // the call in words
    u64 order;        // byte p: the rank that is leaf p
    u64 program;      // byte s: step s adds the group that starts at leaf (byte & 15) to the one at leaf (byte >> 4)
    Mapped* mapped;
    Inbox* inboxes[LANESUM_WORLD_MAX];  // by leaf, this rank's too
    // Of kernels that move chunks (chunks.cuh), which every inbox has areas for: one for each other rank's bytes, and one for results.
    u64 bulk;             // from the start of an inbox to its areas
    u32 bulk_half_bytes;  // of an area
    u32 bulk_lane_bytes;  // of a lane in a half of an area
    u32 bulk_quads;       // of a shard that a lane moves in one exchange
    u32 chunk;            // quads
    u32 window;           // chunks that writers may be ahead
    u32 bulk_lanes;       // that areas are for
};

// A notice to all peers, or a proof of access to them.
struct Notice {
    u64 kind;   // KIND_DEPARTED, KIND_PANICKED
    u64 nonce;  // of a proof
    u32 rank;
    u32 world;
    Local* local;
    Inbox* inboxes[LANESUM_WORLD_MAX];  // by rank
    u64* seen;  // [LANESUM_WORLD_MAX][LANESUM_PROOF_WORDS] for what this device reads of the proofs in its own inbox; null to write
};

#define EMPTY 0
#define FILLED 1

#define KIND_DIED 1
#define KIND_LATE 2
#define KIND_MISMATCH 3
#define KIND_DEPARTED 4
#define KIND_CORRUPT 5
#define KIND_PANICKED 6
#define KIND_OVERLAP 8

#define PHASE_HEADER 0
#define PHASE_RESULT 1
#define PHASE_DATA 3

#define F32 0
#define F16 1
#define BF16 2
#define ANY_DTYPE 3  // that of `Launch::kind`

#define SUM 0
#define MAX 1
#define MIN 2

static_assert(sizeof(Lane) == 16 && sizeof(Local) == 640, "Local");
static_assert(sizeof(Record) == 160, "Record");
static_assert(sizeof(Mapped) == 384, "Mapped");
static_assert(sizeof(Launch) == 400 && sizeof(Notice) == 104, "Launch, Notice");
static_assert(LANESUM_OFFSET(Launch, once) == 24 && LANESUM_OFFSET(Launch, ticket) == 56, "Launch");
static_assert(LANESUM_OFFSET(Launch, targets) == 64 && LANESUM_OFFSET(Launch, sources) == 128, "Launch");
static_assert(LANESUM_OFFSET(Launch, elements) == 192 && LANESUM_OFFSET(Launch, tail) == 208, "Launch");
static_assert(LANESUM_OFFSET(Launch, call) == 240 && LANESUM_OFFSET(Launch, mapped) == 288, "Launch");
static_assert(LANESUM_OFFSET(Launch, kind) == 236 && LANESUM_OFFSET(Launch, bulk) == 360, "Launch");
static_assert(LANESUM_OFFSET(Launch, inboxes) == 296 && LANESUM_OFFSET(Notice, inboxes) == 32, "Launch, Notice");
static_assert(LANESUM_OFFSET(Notice, seen) == 96, "Notice");
// Everything before the data is 36 KiB: 4 KiB with alerts, 32 KiB of proofs.
static_assert(sizeof(Inbox) == 36 * 1024 + 16, "Inbox");
