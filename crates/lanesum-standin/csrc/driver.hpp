// The driver's words as this library uses them, and what every exported function does first.
#pragma once
#include <atomic>
#include <vector>

#include "config.hpp"

typedef int CUresult;
typedef int CUdevice;
typedef u64 CUdeviceptr;

#define LANESUM_API extern "C" __attribute__((visibility("default"))) CUresult

namespace standin {

enum Code : CUresult {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    PEER_ACCESS_UNSUPPORTED = 217,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    DEVICE_UNAVAILABLE = 46,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
    UNKNOWN = 999,
};

struct Stream;

// The primary context of one device. There is one a device and process, and it is never freed.
struct Context {
    int device = 0;
    std::atomic<int> retained{0};
    // Not 0: an execution failed, and every later call says so.
    std::atomic<int> dead{0};
    int lock = -1;  // of an exclusive device
    std::atomic<Stream*> null_stream{nullptr};
};

Context& context_of(int device);
// The calling thread's context, or why it can't be used.
CUresult current(Context** context);

// What lives in this process, for lanesumStandInLeaks.
struct Counters {
    // Handles are streams, events, graphs (from the beginning of their capture), executables and user objects. Registered memory
    // counts as an allocation of the host.
    std::atomic<u64> allocations{0}, bytes{0}, handles{0}, host_allocations{0};
};
Counters& counters();

// Whether the calling thread runs a user object's destructor, which may call nothing of the driver.
bool& in_destructor();

// One of the exported functions: counts its calls, for those that are to fail.
class Symbol {
  public:
    explicit Symbol(const char* name);
    // The code that this call is to return at once; 0 otherwise.
    CUresult called(bool needs_init);

  private:
    std::atomic<u64> calls_{0};
    std::vector<Failing> failing_;
};

}  // namespace standin

#define LANESUM_ENTER_(name, needs_init)                        \
    static standin::Symbol symbol_(#name);                      \
    if (CUresult refused_ = symbol_.called(needs_init)) return refused_
#define LANESUM_ENTER(name) LANESUM_ENTER_(name, true)
#define LANESUM_ENTER_EARLY(name) LANESUM_ENTER_(name, false)
// Declares `context`, the calling thread's.
#define LANESUM_CONTEXT                                         \
    standin::Context* context = nullptr;                        \
    if (CUresult refused_ = standin::current(&context)) return refused_
