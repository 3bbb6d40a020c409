// Memory of the host that the caller has registered.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include "client.hpp"

namespace {

// Inboxes for ranks that each map all of them.
struct Pages {
    int descriptor;
    size_t one, all;
    std::vector<u8*> mappings;

    Pages(size_t bytes, size_t ranks) : one((bytes + 4095) / 4096 * 4096), all(one * ranks), mappings(ranks) {
        descriptor = memfd_create("pages", MFD_CLOEXEC);
        EXPECT(descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(all)) == 0);
    }

    void* map() const {
        void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        EXPECT(memory != MAP_FAILED);
        return memory;
    }

    void let_in(Rank& rank) {
        u8*& memory = mappings[rank.rank];
        memory = static_cast<u8*>(map());
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemHostRegister_v2(memory, all, 3));
        CUdeviceptr at;
        OK(cuMemHostGetDevicePointer_v2(&at, memory, 0));
        for (size_t peer = 0; peer < mappings.size(); ++peer) rank.inboxes[peer] = at + peer * one;
    }

    void put_out(Rank& rank) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemHostUnregister(mappings[rank.rank]));
    }
};

// What is taken and what is refused, with two devices.
void registering(const std::string& what) {
    OK(cuInit(0));
    Context* contexts[2];
    for (int device : {0, 1}) OK(cuDevicePrimaryCtxRetain(&contexts[device], device));
    Pages pages(2 * 4096, 1);
    u8* const memory = static_cast<u8*>(pages.map());
    EXPECT_CODE(cuMemHostRegister_v2(memory, 4096, 3), 201);
    OK(cuCtxSetCurrent(contexts[0]));
    if (what == "second 2") {
        OK(cuMemHostRegister_v2(memory, 4096, 3));
        EXPECT_CODE(cuMemHostRegister_v2(memory + 4096, 4096, 3), 2);
        OK(cuMemHostRegister_v2(memory + 4096, 4096, 3));
        return;
    }
    EXPECT_CODE(cuMemHostRegister_v2(nullptr, 4096, 3), 1);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 0, 3), 1);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 4096, 16), 1);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 4096, 4), 801);
    OK(cuMemHostRegister_v2(memory + 8, 5000, 3));
    EXPECT_CODE(cuMemHostRegister_v2(memory + 5007, 1, 3), 712);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 9, 3), 712);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 8192, 3), 712);
    OK(cuMemHostRegister_v2(memory + 5008, 16, 2));
    EXPECT_CODE(cuMemHostUnregister(nullptr), 1);
    EXPECT_CODE(cuMemHostUnregister(memory), 713);
    EXPECT_CODE(cuMemHostUnregister(memory + 16), 713);
    EXPECT_CODE(cuMemFreeHost(memory + 8), 1);
    // What the driver has made itself.
    void* host;
    CUdeviceptr device, at;
    OK(cuMemHostAlloc(&host, 64, 3));
    OK(cuMemAlloc_v2(&device, 64));
    EXPECT_CODE(cuMemHostRegister_v2(host, 8, 3), 712);
    EXPECT_CODE(cuMemHostRegister_v2(reinterpret_cast<void*>(device), 8, 3), 1);
    EXPECT_CODE(cuMemHostUnregister(host), 713);
    // Copies and fills go there as to memory of a device.
    OK(cuMemHostGetDevicePointer_v2(&at, memory + 8, 0));
    EXPECT(at == reinterpret_cast<CUdeviceptr>(memory + 8));
    OK(cuMemsetD32Async(at, 0x01020304, 2, nullptr));
    OK(cuCtxSynchronize());
    EXPECT(memory[7] == 0 && memory[8] == 4 && memory[15] == 1 && memory[16] == 0);
    const u32 word = 9;
    OK(cuMemcpyHtoD_v2(at, &word, 4));
    OK(cuMemcpyDtoH_v2(&memory[5008], at, 4));
    EXPECT(memory[8] == 9 && memory[5008] == 9);
    unsigned type;
    OK(cuPointerGetAttribute(&type, 2, at));
    EXPECT(type == 1);
    // Another device, with PORTABLE and without; and nobody's kernels without DEVICEMAP.
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemHostGetDevicePointer_v2(&at, memory + 8, 0));
    EXPECT_CODE(cuMemHostGetDevicePointer_v2(&at, memory + 5008, 0), 1);
    EXPECT_CODE(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(memory + 5008), 0, 1, nullptr), 1);
    OK(cuMemHostRegister_v2(memory, 8, 1));
    EXPECT_CODE(cuMemHostGetDevicePointer_v2(&at, memory, 0), 1);
    for (const int offset : {0, 8, 5008}) OK(cuMemHostUnregister(memory + offset));
    EXPECT_CODE(cuMemHostUnregister(memory), 713);
    EXPECT_CODE(cuMemHostGetDevicePointer_v2(&at, memory + 8, 0), 1);
    EXPECT(munmap(memory + 4096, 4096) == 0);
    EXPECT_CODE(cuMemHostRegister_v2(memory, 8192, 3), 1);
    OK(cuMemHostRegister_v2(memory, 4096, 3));
    OK(cuMemHostUnregister(memory));
}

}  // namespace
