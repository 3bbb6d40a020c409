// How kernels run: blocks on OS threads, threads of a block as fibers.
#pragma once
#include <memory>
#include <string>

#include "driver.hpp"
#include "machine/cpu.hpp"

namespace standin {

struct Kernel {
    std::string name;
    u32 parameters;  // bytes
    Body body;
};
// The kernel of that name that was compiled in, or null.
const Kernel* kernel(const std::string& name);

// One launch.
struct Grid {
    const Kernel* kernel = nullptr;
    alignas(16) u8 parameters[1024] = {};
    u32 blocks = 0, threads = 0;
    Context* context = nullptr;
};

// Runs all blocks at once and returns when all have ended. A kernel that touches what it must not ends, and with it the
// context.
void execute(const std::shared_ptr<Grid>& grid);

}  // namespace standin
