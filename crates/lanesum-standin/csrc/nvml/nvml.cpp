// A stand-in for NVML: a libnvidia-ml.so.1 that shows the machine of a script, so that tests need no GPU.
//
// LANESUM_STANDIN_NVML names a file of lines (src/nvml.rs writes them); without it, NVML works and there is no GPU. What a script does
// not say of a GPU is not supported, as NVML says of what a model lacks. Structs and codes are those of nvml.h, whose names start with
// nvml; no more functions than lanesum calls.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum Code { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

struct PciInfo {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct Memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct Bar1 {
    unsigned long long total, free, used;
};

struct Utilisation {
    unsigned gpu, memory;
};

struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;
    int type, code;
    union {
        unsigned u32;
        unsigned long long u64;
    } value;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(Memory) == 40 && sizeof(FieldValue) == 40);

// A GPU or, by `of`, an instance of one.
struct Device {
    std::map<std::string, std::string> facts;
    std::vector<std::string> nvlinks;
    std::vector<std::unique_ptr<Device>> instances;
    Device* of = nullptr;
};

struct Machine {
    std::map<std::string, std::string> facts;
    std::vector<std::unique_ptr<Device>> gpus;
};

Machine read() {
    Machine machine;
    const char* path = std::getenv("LANESUM_STANDIN_NVML");
    if (!path) return machine;
    std::ifstream file(path);
    if (!file) {
        std::fprintf(stderr, "stand-in of NVML: can't read %s\n", path);
        std::abort();
    }
    for (std::string line; std::getline(file, line);) {
        const auto blank = line.find(' ');
        const std::string key = line.substr(0, blank);
        const std::string value = blank == std::string::npos ? "" : line.substr(blank + 1);
        Device* gpu = machine.gpus.empty() ? nullptr : machine.gpus.back().get();
        if (key == "gpu") {
            machine.gpus.push_back(std::make_unique<Device>());
        } else if (!gpu) {
            machine.facts[key] = value;
        } else if (key == "nvlink") {
            gpu->nvlinks.push_back(value);
        } else if (key == "instance") {
            auto instance = std::make_unique<Device>();
            instance->facts["uuid"] = value;
            instance->of = gpu;
            gpu->instances.push_back(std::move(instance));
        } else {
            gpu->facts[key] = value;
        }
    }
    return machine;
}

Machine& machine() {
    static Machine machine = read();
    return machine;
}

std::optional<std::string> fact(const std::map<std::string, std::string>& facts, const char* key) {
    const auto found = facts.find(key);
    if (found == facts.end()) return std::nullopt;
    return found->second;
}

// What a script wants of a function before it answers.
void enter(const char* function) {
    if (fact(machine().facts, "hang") == function) {
        for (;;) pause();
    }
    if (fact(machine().facts, "crash") == function) std::abort();
}

int text(const std::optional<std::string>& value, char* out, unsigned size) {
    if (!value) return NOT_SUPPORTED;
    if (value->size() >= size) return INSUFFICIENT_SIZE;
    value->copy(out, value->size());
    out[value->size()] = 0;
    return SUCCESS;
}

template <typename Number>
int number(const std::optional<std::string>& value, Number* out) {
    if (!value) return NOT_SUPPORTED;
    *out = static_cast<Number>(std::strtoull(value->c_str(), nullptr, 10));
    return SUCCESS;
}

// The word at this place of a fact with several.
int word(const Device* device, const char* key, int place, unsigned* out) {
    const auto value = fact(device->facts, key);
    if (!value) return NOT_SUPPORTED;
    std::istringstream words(*value);
    std::string found;
    for (int at = 0; at <= place; ++at) words >> found;
    return number<unsigned>(found, out);
}

int place(const std::string& bus_id, PciInfo* out) {
    *out = {};
    if (std::sscanf(bus_id.c_str(), "%x:%x:%x.", &out->domain, &out->bus, &out->device) != 3) return NOT_SUPPORTED;
    return text(bus_id, out->bus_id, sizeof out->bus_id);
}

int handle(Device* gpu, Device** out) {
    unsigned refused;
    if (number(fact(gpu->facts, "refuse"), &refused) == SUCCESS) return static_cast<int>(refused);
    *out = gpu;
    return SUCCESS;
}

}  // namespace

#define NVML(name) extern "C" __attribute__((visibility("default"))) int nvml##name
#define ENTER enter(__func__)

NVML(Init_v2)() {
    ENTER;
    unsigned refused;
    return number(fact(machine().facts, "init"), &refused) == SUCCESS ? static_cast<int>(refused) : SUCCESS;
}

NVML(Shutdown)() { return SUCCESS; }

NVML(SystemGetDriverVersion)(char* out, unsigned size) {
    ENTER;
    return text(fact(machine().facts, "driver"), out, size);
}

NVML(SystemGetCudaDriverVersion_v2)(int* out) { return number(fact(machine().facts, "cuda"), out); }

NVML(DeviceGetCount_v2)(unsigned* out) {
    ENTER;
    *out = static_cast<unsigned>(machine().gpus.size());
    return SUCCESS;
}

NVML(DeviceGetHandleByIndex_v2)(unsigned index, Device** out) {
    ENTER;
    if (index >= machine().gpus.size()) return INVALID_ARGUMENT;
    return handle(machine().gpus[index].get(), out);
}

NVML(DeviceGetHandleByPciBusId_v2)(const char* bus_id, Device** out) {
    PciInfo wanted, there;
    if (place(bus_id, &wanted) != SUCCESS) return INVALID_ARGUMENT;
    for (const auto& gpu : machine().gpus) {
        if (place(fact(gpu->facts, "bus").value_or(""), &there) != SUCCESS) continue;
        if (there.domain == wanted.domain && there.bus == wanted.bus && there.device == wanted.device)
            return handle(gpu.get(), out);
    }
    return NOT_FOUND;
}

NVML(DeviceGetUUID)(Device* device, char* out, unsigned size) { return text(fact(device->facts, "uuid"), out, size); }

NVML(DeviceGetName)(Device* device, char* out, unsigned size) {
    ENTER;
    return text(fact(device->facts, "name"), out, size);
}

NVML(DeviceGetPciInfo_v3)(Device* device, PciInfo* out) {
    return place(fact(device->facts, "bus").value_or(""), out);
}

NVML(DeviceGetMemoryInfo_v2)(Device* device, Memory* out) {
    if (out->version != (sizeof *out | 2U << 24)) return INVALID_ARGUMENT;
    return number(fact(device->facts, "memory"), &out->total);
}

NVML(DeviceGetBAR1MemoryInfo)(Device* device, Bar1* out) { return number(fact(device->facts, "bar1"), &out->total); }

NVML(DeviceGetCurrPcieLinkGeneration)(Device* device, unsigned* out) { return word(device, "link", 0, out); }
NVML(DeviceGetCurrPcieLinkWidth)(Device* device, unsigned* out) { return word(device, "link", 1, out); }
NVML(DeviceGetMaxPcieLinkGeneration)(Device* device, unsigned* out) { return word(device, "link_max", 0, out); }
NVML(DeviceGetMaxPcieLinkWidth)(Device* device, unsigned* out) { return word(device, "link_max", 1, out); }

NVML(DeviceGetPerformanceState)(Device* device, unsigned* out) { return number(fact(device->facts, "state"), out); }

NVML(DeviceGetUtilizationRates)(Device* device, Utilisation* out) {
    return number(fact(device->facts, "utilisation"), &out->gpu);
}

NVML(DeviceGetDisplayMode)(Device* device, unsigned* out) {
    return number(fact(device->facts, "display_attached"), out);
}

NVML(DeviceGetDisplayActive)(Device* device, unsigned* out) {
    return number(fact(device->facts, "display_active"), out);
}

NVML(DeviceGetMigMode)(Device* device, unsigned* now, unsigned* pending) {
    number(fact(device->facts, "mig"), pending);
    return number(fact(device->facts, "mig"), now);
}

NVML(DeviceGetMaxMigDeviceCount)(Device*, unsigned* out) {
    *out = 7;
    return SUCCESS;
}

NVML(DeviceGetMigDeviceHandleByIndex)(Device* device, unsigned index, Device** out) {
    if (index >= device->instances.size()) return NOT_FOUND;
    *out = device->instances[index].get();
    return SUCCESS;
}

NVML(DeviceGetNvLinkState)(Device* device, unsigned link, unsigned* out) {
    ENTER;
    if (device->nvlinks.empty()) return NOT_SUPPORTED;
    if (link >= device->nvlinks.size()) return INVALID_ARGUMENT;
    *out = device->nvlinks[link] != "inactive";
    return SUCCESS;
}

NVML(DeviceGetNvLinkRemotePciInfo_v2)(Device* device, unsigned link, PciInfo* out) {
    if (link >= device->nvlinks.size()) return INVALID_ARGUMENT;
    return place(device->nvlinks[link], out);
}

NVML(DeviceGetFieldValues)(Device* device, int count, FieldValue* values) {
    for (int at = 0; at < count; ++at) {
        FieldValue& value = values[at];
        // NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT, an unsigned int.
        value.type = 1;
        value.code = value.field == 147 ? number(fact(device->facts, "to_switches"), &value.value.u32) : NOT_SUPPORTED;
    }
    return SUCCESS;
}
