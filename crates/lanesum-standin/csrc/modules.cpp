// Modules and launches. Images are the real ones; their names decide what can be found, and the code that runs is compiled in.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "blocks.hpp"
#include "captures.hpp"

namespace standin {
namespace {

struct Module;

struct Function {
    const Kernel* kernel;
    Module* module;
};

struct Module {
    Context* context;
    std::set<std::string> names;
    bool awaiting = false;  // its kernels await the one before them: those of machine code for 9.0 and later
    std::vector<std::unique_ptr<Function>> functions;
    std::shared_ptr<const bool> loaded = std::make_shared<const bool>(true);  // gone when the module is
};

struct Books {
    std::mutex mutex;
    std::set<Module*> modules;
    std::set<Function*> functions;
};
Books& books() {
    static Books* const all = new Books;
    return *all;
}

// What is read of an ELF file. Images come from the program itself: offsets are believed, as the real driver believes them.
struct Header {
    u8 identification[16];
    u16 type, machine;
    u32 version;
    u64 entry, programs, sections;
    u32 flags;
    u16 header_bytes, program_bytes, program_count, section_bytes, section_count, names_section;
};
struct Section {
    u32 name, type;
    u64 flags, address, offset, bytes;
    u32 link, info;
    u64 alignment, entry_bytes;
};
static_assert(sizeof(Header) == 64 && sizeof(Section) == 64, "ELF64");

const u16 MACHINE_CUDA = 190;

// The architecture: second byte of the flags since version 8 of the ABI, lowest byte before.
int architecture(const Header& header) {
    return static_cast<int>(header.identification[8] >= 8 ? header.flags >> 8 & 0xFF : header.flags & 0xFF);
}

// A kernel's code runs on its major architecture with the same minor or a later one.
bool runs_here(int architecture) {
    return config().cubins && architecture / 10 == config().major && architecture % 10 <= config().minor;
}

CUresult read_cubin(const u8* image, std::set<std::string>* names, bool* awaiting) {
    Header header;
    std::memcpy(&header, image, sizeof header);
    if (header.identification[4] != 2 || header.machine != MACHINE_CUDA) return INVALID_IMAGE;
    if (header.section_bytes != sizeof(Section) || header.names_section >= header.section_count) return INVALID_IMAGE;
    if (!runs_here(architecture(header))) return NO_BINARY_FOR_GPU;
    *awaiting = architecture(header) >= 90;
    std::vector<Section> sections(header.section_count);
    std::memcpy(sections.data(), image + header.sections, sections.size() * sizeof(Section));
    const char* const strings = reinterpret_cast<const char*>(image) + sections[header.names_section].offset;
    // Only entries have parameters, and those stand in bank 0.
    const std::string prefix = ".nv.constant0.";
    for (const Section& section : sections) {
        const std::string name = strings + section.name;
        if (name.compare(0, prefix.size(), prefix) == 0) names->insert(name.substr(prefix.size()));
    }
    return SUCCESS;
}

CUresult read_ptx(const std::string& text, std::set<std::string>* names) {
    if (!config().ptx) return UNSUPPORTED_PTX_VERSION;
    const std::string target = ".target sm_", entry = ".entry ";
    const size_t stands = text.find(target);
    if (stands == std::string::npos || text.find(entry) == std::string::npos) return INVALID_PTX;
    if (std::atoi(text.c_str() + stands + target.size()) > config().major * 10 + config().minor) return NO_BINARY_FOR_GPU;
    for (size_t next = text.find(entry); next != std::string::npos; next = text.find(entry, next)) {
        next += entry.size();
        names->insert(text.substr(next, text.find_first_of("( \n", next) - next));
    }
    return SUCCESS;
}

// `loaded` may be null.
bool known(Function* function, Function* out, std::weak_ptr<const bool>* loaded) {
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().functions.count(function) == 0) return false;
    *out = *function;
    if (loaded != nullptr) *loaded = function->module->loaded;
    return true;
}

// The driver's CUlaunchAttribute and CUlaunchConfig.
struct Attribute {
    unsigned id, padding;
    alignas(8) int value[16];
};
struct Launching {
    unsigned grid[3], block[3], shared_bytes;
    Stream* stream;
    const Attribute* attributes;
    unsigned count;
};
static_assert(sizeof(Attribute) == 72 && sizeof(Launching) == 56, "the driver's");

const unsigned PROGRAMMATIC_STREAM_SERIALIZATION = 6;

// May a kernel be launched with these attributes? What is early here starts in its turn. The driver lets any kernel be early, and one
// that does not await the one before it would be wrong now and then: here it is refused.
CUresult refuse_attributes(const Launching& launching, const Function& function, bool captured) {
    if (launching.count != 0 && launching.attributes == nullptr) return INVALID_VALUE;
    for (unsigned index = 0; index < launching.count; ++index) {
        const Attribute& attribute = launching.attributes[index];
        if (attribute.id != PROGRAMMATIC_STREAM_SERIALIZATION) return INVALID_VALUE;
        if (attribute.value[0] == 0) continue;
        if (!config().programmatic || config().major < 9 || (captured && config().driver < 12030)) return NOT_SUPPORTED;
        if (!function.module->awaiting) return INVALID_VALUE;
    }
    return SUCCESS;
}

// Counts executions for those that are to fail.
bool fails_now() {
    static std::atomic<u64> executions{0};
    const u64 execution = ++executions;
    for (const u64 failing : config().launch_errors) {
        if (failing == execution) return true;
    }
    return false;
}

void kill(Context* context, int code) {
    int healthy = 0;
    context->dead.compare_exchange_strong(healthy, code);
}

void run(const std::shared_ptr<Grid>& grid) {
    if (fails_now()) {
        kill(grid->context, LAUNCH_FAILED);
        return;
    }
    execute(grid);
}

// A graph refers to the module's code, and nothing keeps that but whoever made the graph.
void run_again(const std::shared_ptr<Grid>& grid, const std::weak_ptr<const bool>& loaded) {
    if (loaded.lock() != nullptr) {
        run(grid);
        return;
    }
    std::fprintf(stderr, "stand-in: a graph launches a kernel of an unloaded module: %s\n", grid->kernel->name.c_str());
    kill(grid->context, ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace standin

using namespace standin;

LANESUM_API cuModuleLoadData(Module** out, const void* image) {
    LANESUM_ENTER(cuModuleLoadData);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (out == nullptr || image == nullptr) return INVALID_VALUE;
    auto made = std::make_unique<Module>();
    made->context = context;
    const bool elf = std::memcmp(image, "\177ELF", 4) == 0;
    const CUresult read = elf ? read_cubin(static_cast<const u8*>(image), &made->names, &made->awaiting)
                              : read_ptx(static_cast<const char*>(image), &made->names);
    if (read != SUCCESS) return read;
    std::lock_guard<std::mutex> guard(books().mutex);
    *out = made.release();
    books().modules.insert(*out);
    return SUCCESS;
}

LANESUM_API cuModuleUnload(Module* module) {
    LANESUM_ENTER(cuModuleUnload);
    LANESUM_CONTEXT;
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().modules.erase(module) == 0) return INVALID_HANDLE;
    for (const auto& function : module->functions) books().functions.erase(function.get());
    delete module;
    return SUCCESS;
}

LANESUM_API cuModuleGetFunction(Function** out, Module* module, const char* name) {
    LANESUM_ENTER(cuModuleGetFunction);
    LANESUM_CONTEXT;
    if (out == nullptr || name == nullptr) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().modules.count(module) == 0) return INVALID_HANDLE;
    const Kernel* const found = kernel(name);
    if (found == nullptr || module->names.count(name) == 0) return NOT_FOUND;
    module->functions.emplace_back(new Function{found, module});
    *out = module->functions.back().get();
    books().functions.insert(*out);
    return SUCCESS;
}

LANESUM_API cuFuncGetAttribute(int* value, int which, Function* handle) {
    LANESUM_ENTER(cuFuncGetAttribute);
    LANESUM_CONTEXT;
    Function function;
    if (value == nullptr || which < 0 || which > 20) return INVALID_VALUE;
    if (!known(handle, &function, nullptr)) return INVALID_HANDLE;
    switch (which) {
        case 0: *value = config().threads; break;  // MAX_THREADS_PER_BLOCK
        case 4: *value = 32; break;                // NUM_REGS
        case 5: *value = 70; break;                // PTX_VERSION
        case 6: *value = config().major * 10 + config().minor; break;  // BINARY_VERSION
        default: *value = 0;                       // shared, constant and local bytes among them
    }
    return SUCCESS;
}

LANESUM_API cuLaunchKernelEx(const Launching* launching, Function* handle, void** parameters, void** extra) {
    LANESUM_ENTER(cuLaunchKernelEx);
    LANESUM_CONTEXT;
    Function function;
    std::weak_ptr<const bool> loaded;
    if (launching == nullptr) return INVALID_VALUE;
    if (!known(handle, &function, &loaded) || function.module->context != context) return INVALID_HANDLE;
    Stream* const stream = stream_of(context, launching->stream);
    if (stream == nullptr || stream->context != context) return INVALID_HANDLE;
    const unsigned blocks = launching->grid[0], threads = launching->block[0];
    if (blocks == 0 || launching->grid[1] != 1 || launching->grid[2] != 1) return INVALID_VALUE;
    if (threads == 0 || launching->block[1] != 1 || launching->block[2] != 1) return INVALID_VALUE;
    if (threads > static_cast<unsigned>(config().threads) || extra != nullptr || parameters == nullptr) return INVALID_VALUE;
    if (const CUresult refused = refuse_attributes(*launching, function, captures(stream))) return refused;
    auto grid = std::make_shared<Grid>();
    grid->kernel = function.kernel;
    grid->blocks = blocks;
    grid->threads = threads;
    grid->context = context;
    if (function.kernel->parameters > sizeof grid->parameters) return INVALID_VALUE;
    std::memcpy(grid->parameters, parameters[0], function.kernel->parameters);
    if (captures(stream)) {
        return submit(stream, [grid, loaded](bool alive) {
            if (alive) run_again(grid, loaded);
        });
    }
    return submit(stream, [grid](bool alive) {
        if (alive) run(grid);
    });
}
