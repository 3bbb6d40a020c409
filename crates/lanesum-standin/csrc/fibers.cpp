#include "fibers.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#if defined(__x86_64__)
asm(R"(
.text
.type lanesum_standin_switch,@function
.hidden lanesum_standin_switch
.globl lanesum_standin_switch
lanesum_standin_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size lanesum_standin_switch, .-lanesum_standin_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.type lanesum_standin_switch,%function
.hidden lanesum_standin_switch
.globl lanesum_standin_switch
lanesum_standin_switch:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
.size lanesum_standin_switch, .-lanesum_standin_switch
)");
#else
#error "the stand-in driver switches fibers on x86-64 and aarch64"
#endif

namespace standin {
namespace {
const size_t BYTES = 64 << 10;
const size_t GUARD = 4096;
}  // namespace

Stack::Stack() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, BYTES + GUARD, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) {
        std::fprintf(stderr, "stand-in: no memory for a fiber\n");
        std::abort();
    }
    bottom_ = static_cast<u8*>(memory);
}

Stack::~Stack() { munmap(bottom_, BYTES + GUARD); }

Suspended Stack::prepare(void (*start)()) {
    u8* top = bottom_ + GUARD + BYTES;
    const u64 address = reinterpret_cast<u64>(start);
#if defined(__x86_64__)
    // Six registers, the address that `ret` takes, and what the callee believes to be its own return address.
    u64* frame = reinterpret_cast<u64*>(top) - 8;
    std::memset(frame, 0, 64);
    frame[6] = address;
#else
    u64* frame = reinterpret_cast<u64*>(top) - 20;
    std::memset(frame, 0, 160);
    frame[1] = address;
#endif
    return frame;
}

}  // namespace standin
