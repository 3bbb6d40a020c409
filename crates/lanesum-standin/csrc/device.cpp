// Start, devices, contexts and names of errors.
#include <cstdio>
#include <cstring>
#include <map>
#include <pthread.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/file.h>
#include <unistd.h>

#include "driver.hpp"

namespace standin {
namespace {

std::atomic<bool> initialized{false};
// A child of fork has none of the threads: nothing works there, as with the real driver.
std::atomic<bool> forked{false};

std::vector<Context*>& contexts_of_thread() {
    static thread_local std::vector<Context*> stack;
    return stack;
}

bool known(int device) { return device >= 0 && device < config().devices; }

// Takes the device for this process if it can be had by one only.
CUresult occupy(Context& context) {
    if (config().prohibited[context.device]) return DEVICE_UNAVAILABLE;
    if (!config().exclusive[context.device] || context.lock >= 0) return SUCCESS;
    const std::string path = config().path + ".device" + std::to_string(context.device);
    const int lock = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (lock < 0) return OPERATING_SYSTEM;
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        close(lock);
        return DEVICE_UNAVAILABLE;
    }
    context.lock = lock;
    return SUCCESS;
}

std::mutex& retaining() {
    static std::mutex* const mutex = new std::mutex;
    return *mutex;
}

CUresult attribute(int which, int device) {
    const Config& c = config();
    switch (which) {
        case 1: case 2: case 3: case 4: return c.threads;  // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM
        case 5: return 0x7FFFFFFF;                         // MAX_GRID_DIM_X
        case 6: case 7: return 65535;
        case 8: return 49152;    // MAX_SHARED_MEMORY_PER_BLOCK
        case 9: return 65536;    // TOTAL_CONSTANT_MEMORY
        case 10: return 32;      // WARP_SIZE
        case 12: return 65536;   // MAX_REGISTERS_PER_BLOCK
        case 13: return 1000000; // CLOCK_RATE
        case 16: return c.multiprocessors;
        case 17: return c.watchdog[device];  // KERNEL_EXEC_TIMEOUT
        case 19: return 1;                   // CAN_MAP_HOST_MEMORY
        case 20: return c.prohibited[device] ? 2 : c.exclusive[device] ? 3 : 0;  // COMPUTE_MODE
        case 31: return 1;           // CONCURRENT_KERNELS
        case 33: return 16 + device; // PCI_BUS_ID
        case 39: return c.threads;   // MAX_THREADS_PER_MULTIPROCESSOR
        case 40: return 2;           // ASYNC_ENGINE_COUNT
        case 41: return 1;           // UNIFIED_ADDRESSING
        case 75: return c.major;
        case 76: return c.minor;
        case 81: case 82: return 65536;  // MAX_REGISTERS_PER_MULTIPROCESSOR
        case 95: return 1;               // COOPERATIVE_LAUNCH
        case 102: case 103: return c.vmm;  // VIRTUAL_MEMORY_MANAGEMENT, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        case 106: return 1;                // MAX_BLOCKS_PER_MULTIPROCESSOR
        case 125: return c.ipc;            // IPC_EVENT
        default: return 0;
    }
}

const std::map<CUresult, std::pair<const char*, const char*>>& names() {
    static const auto* const all = new std::map<CUresult, std::pair<const char*, const char*>>{
        {0, {"CUDA_SUCCESS", "no error"}},
        {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
        {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
        {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
        {46, {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}},
        {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
        {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
        {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
        {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
        {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
        {217, {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"}},
        {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
        {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
        {304, {"CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"}},
        {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
        {401, {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"}},
        {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
        {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
        {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
        {709, {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"}},
        {712, {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"}},
        {713, {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"}},
        {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
        {800, {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"}},
        {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
        {802, {"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"}},
        {803, {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"}},
        {900, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
        {901, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
        {902, {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"}},
        {903, {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"}},
        {904, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
        {905, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"}},
        {906, {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"}},
        {907, {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"}},
        {908, {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"}},
        {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
    };
    return *all;
}

}  // namespace

Context& context_of(int device) {
    static Context* const contexts = [] {
        Context* all = new Context[DEVICES_MAX];
        for (int device = 0; device < DEVICES_MAX; ++device) all[device].device = device;
        return all;
    }();
    return contexts[device];
}

CUresult current(Context** context) {
    if (contexts_of_thread().empty() || contexts_of_thread().back() == nullptr) return INVALID_CONTEXT;
    *context = contexts_of_thread().back();
    if ((*context)->retained.load() == 0) return CONTEXT_IS_DESTROYED;
    return (*context)->dead.load();
}

Counters& counters() {
    static Counters* const all = new Counters;
    return *all;
}

bool& in_destructor() {
    static thread_local bool runs = false;
    return runs;
}

Symbol::Symbol(const char* name) {
    for (const Failing& failing : config().failing) {
        if (failing.symbol == name) failing_.push_back(failing);
    }
}

CUresult Symbol::called(bool needs_init) {
    const u64 call = ++calls_;
    for (const Failing& failing : failing_) {
        if (failing.call == call) return failing.code;
    }
    if (in_destructor()) return NOT_PERMITTED;
    return needs_init && (!initialized.load() || forked.load()) ? NOT_INITIALIZED : SUCCESS;
}

}  // namespace standin

using namespace standin;

LANESUM_API lanesumStandIn() { return 1; }

LANESUM_API lanesumStandInLeaks(unsigned long long* out) {
    out[0] = counters().allocations;
    out[1] = counters().bytes;
    out[2] = counters().handles;
    out[3] = counters().host_allocations;
    return SUCCESS;
}

LANESUM_API cuInit(unsigned flags) {
    LANESUM_ENTER_EARLY(cuInit);
    if (flags != 0) return INVALID_VALUE;
    if (forked.load()) return NOT_INITIALIZED;
    if (!config().sound) return UNKNOWN;
    if (config().devices == 0) return NO_DEVICE;
    static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
    if (registered != 0) return OPERATING_SYSTEM;
    initialized.store(true);
    return SUCCESS;
}

LANESUM_API cuDriverGetVersion(int* version) {
    LANESUM_ENTER_EARLY(cuDriverGetVersion);
    if (version == nullptr) return INVALID_VALUE;
    *version = config().driver;
    return SUCCESS;
}

LANESUM_API cuDeviceGetCount(int* count) {
    LANESUM_ENTER(cuDeviceGetCount);
    if (count == nullptr) return INVALID_VALUE;
    *count = config().devices;
    return SUCCESS;
}

LANESUM_API cuDeviceGet(CUdevice* device, int ordinal) {
    LANESUM_ENTER(cuDeviceGet);
    if (device == nullptr) return INVALID_VALUE;
    if (!known(ordinal)) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

LANESUM_API cuDeviceGetName(char* name, int length, CUdevice device) {
    LANESUM_ENTER(cuDeviceGetName);
    if (name == nullptr || length <= 0) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    std::snprintf(name, static_cast<size_t>(length), "lanesum stand-in %d", device);
    return SUCCESS;
}

LANESUM_API cuDeviceGetUuid_v2(unsigned char* uuid, CUdevice device) {
    LANESUM_ENTER(cuDeviceGetUuid_v2);
    if (uuid == nullptr) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    std::memcpy(uuid, "lanesum standin", 15);
    uuid[15] = static_cast<unsigned char>(device);
    return SUCCESS;
}

LANESUM_API cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
    LANESUM_ENTER(cuDeviceGetPCIBusId);
    if (id == nullptr || length <= 0) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", 16 + device);
    return SUCCESS;
}

LANESUM_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    LANESUM_ENTER(cuDeviceTotalMem_v2);
    if (bytes == nullptr) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    *bytes = config().memory;
    return SUCCESS;
}

LANESUM_API cuDeviceGetAttribute(int* value, int which, CUdevice device) {
    LANESUM_ENTER(cuDeviceGetAttribute);
    if (value == nullptr || which <= 0 || which > 200) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    *value = attribute(which, device);
    return SUCCESS;
}

LANESUM_API cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    LANESUM_ENTER(cuDeviceCanAccessPeer);
    if (can == nullptr) return INVALID_VALUE;
    if (!known(device) || !known(peer)) return INVALID_DEVICE;
    *can = device != peer && !config().refused[device][peer];
    return SUCCESS;
}

LANESUM_API cuDevicePrimaryCtxRetain(Context** context, CUdevice device) {
    LANESUM_ENTER(cuDevicePrimaryCtxRetain);
    if (context == nullptr) return INVALID_VALUE;
    if (!known(device)) return INVALID_DEVICE;
    std::lock_guard<std::mutex> guard(retaining());
    Context& primary = context_of(device);
    if (const int dead = primary.dead.load()) return dead;
    if (const CUresult refused = occupy(primary)) return refused;
    ++primary.retained;
    *context = &primary;
    return SUCCESS;
}

LANESUM_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    LANESUM_ENTER(cuDevicePrimaryCtxRelease_v2);
    if (!known(device)) return INVALID_DEVICE;
    std::lock_guard<std::mutex> guard(retaining());
    Context& primary = context_of(device);
    if (primary.retained.load() == 0) return INVALID_CONTEXT;
    if (--primary.retained == 0 && primary.lock >= 0) {
        close(primary.lock);
        primary.lock = -1;
    }
    return SUCCESS;
}

LANESUM_API cuCtxPushCurrent_v2(Context* context) {
    LANESUM_ENTER(cuCtxPushCurrent_v2);
    if (context == nullptr) return INVALID_CONTEXT;
    contexts_of_thread().push_back(context);
    return SUCCESS;
}

LANESUM_API cuCtxPopCurrent_v2(Context** context) {
    LANESUM_ENTER(cuCtxPopCurrent_v2);
    auto& stack = contexts_of_thread();
    if (stack.empty()) return INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return SUCCESS;
}

LANESUM_API cuCtxGetCurrent(Context** context) {
    LANESUM_ENTER(cuCtxGetCurrent);
    if (context == nullptr) return INVALID_VALUE;
    *context = contexts_of_thread().empty() ? nullptr : contexts_of_thread().back();
    return SUCCESS;
}

LANESUM_API cuCtxSetCurrent(Context* context) {
    LANESUM_ENTER(cuCtxSetCurrent);
    auto& stack = contexts_of_thread();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return SUCCESS;
}

LANESUM_API cuGetErrorName(CUresult code, const char** name) {
    LANESUM_ENTER_EARLY(cuGetErrorName);
    if (name == nullptr) return INVALID_VALUE;
    const auto found = names().find(code);
    *name = found == names().end() ? nullptr : found->second.first;
    return *name == nullptr ? INVALID_VALUE : SUCCESS;
}

LANESUM_API cuGetErrorString(CUresult code, const char** text) {
    LANESUM_ENTER_EARLY(cuGetErrorString);
    if (text == nullptr) return INVALID_VALUE;
    const auto found = names().find(code);
    *text = found == names().end() ? nullptr : found->second.second;
    return *text == nullptr ? INVALID_VALUE : SUCCESS;
}
