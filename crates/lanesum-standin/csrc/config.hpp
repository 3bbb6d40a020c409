// The machine that a test asks for: a text, one setting a line, in the file that LANESUM_STANDIN names.
#pragma once
#include <string>
#include <vector>

#include "words.hpp"

namespace standin {

const int DEVICES_MAX = 16;
// Owners that are no device: of the driver's own memory of the host, and of the caller's, which is registered.
const int HOST = -1, REGISTERED = -2;

// What happens to stores of kernels on one device to memory of another, or to registered memory of the host.
enum class Lie : u8 { None, Drop, Mirror, Delay, Tear };

struct Failing {
    std::string symbol;
    u64 call;  // from 1
    int code;
};

struct Config {
    std::string path;  // empty: no file
    bool sound = true;  // false: the file could not be read or has a line that nobody understands
    int devices = 8;
    int major = 9, minor = 0;
    int multiprocessors = 8;
    int threads = 64;
    int resident = 0;    // blocks of a device that run at once in a process; 0: any number
    u64 memory = 8ull << 30;  // of each device, for each process
    int driver = 13000;
    u64 granularity = 64 << 10;
    bool vmm = true, ipc = true, cubins = true, ptx = true;
    bool programmatic = true;  // launches may be early
    bool refused[DEVICES_MAX][DEVICES_MAX] = {};  // [accessing][owner]
    Lie lies[DEVICES_MAX][DEVICES_MAX] = {};      // [storing][owner]
    Lie host_lies[DEVICES_MAX] = {};              // [storing]
    bool exclusive[DEVICES_MAX] = {}, prohibited[DEVICES_MAX] = {}, watchdog[DEVICES_MAX] = {};
    std::vector<Failing> failing;
    std::vector<u64> launch_errors;  // kernel executions of the process, from 1
};

// Read once, at the first call of any function.
const Config& config();

}  // namespace standin
