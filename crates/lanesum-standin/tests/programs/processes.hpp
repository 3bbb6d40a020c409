// Cases with several processes.
#pragma once
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.hpp"

namespace {

void give(int socket, const void* bytes, size_t count, int descriptor) {
    iovec part = {const_cast<void*>(bytes), count};
    char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    EXPECT(sendmsg(socket, &message, 0) == static_cast<ssize_t>(count));
}

int take(int socket, void* bytes, size_t count) {
    iovec part = {bytes, count};
    char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT(recvmsg(socket, &message, 0) == static_cast<ssize_t>(count));
    int descriptor = -1;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

// The peer's inbox by descriptor, mapped here.
Shared trade_descriptors(Rank& rank, int socket) {
    int own;
    OK(cuMemExportToShareableHandle(&own, rank.inbox.handle, 1, 0));
    give(socket, "x", 1, own);
    close(own);
    char byte;
    const int theirs = take(socket, &byte, 1);
    Shared peer;
    OK(cuMemImportFromShareableHandle(&peer.handle, reinterpret_cast<void*>(static_cast<u64>(theirs)), 1));
    close(theirs);
    peer.bytes = rank.inbox.bytes;
    peer.map(rank.device);
    return peer;
}

// A process of its own: rank and device are the same number.
void one_process(const std::vector<char>& image, u32 number, int socket, bool ipc) {
    OK(cuInit(0));
    Rank rank;
    rank.open(number, 2, static_cast<int>(number), image);
    const u32 peer = 1 - number;
    Shared by_descriptor;
    CUdeviceptr by_handle = 0, own = 0;
    if (ipc) {
        OK(cuMemAlloc_v2(&own, inbox_bytes(2)));
        IpcHandle mine, theirs;
        OK(cuIpcGetMemHandle(&mine, own));
        give(socket, &mine, sizeof mine, -1);
        take(socket, &theirs, sizeof theirs);
        EXPECT_CODE(cuIpcOpenMemHandle_v2(&by_handle, mine, 1), 201);
        OK(cuIpcOpenMemHandle_v2(&by_handle, theirs, 1));
        rank.inboxes[number] = own;
        rank.inboxes[peer] = by_handle;
    } else {
        by_descriptor = trade_descriptors(rank, socket);
        rank.inboxes[peer] = by_descriptor.at;
    }
    const u64 count = 777;
    CUdeviceptr buffer;
    std::vector<float> elements(count);
    OK(cuMemAlloc_v2(&buffer, count * 4));
    for (int call = 0; call < 20; ++call) {
        for (u64 index = 0; index < count; ++index) elements[index] = value(number, index + call);
        OK(cuMemcpyHtoD_v2(buffer, elements.data(), count * 4));
        OK(rank.start(rank.sum("f32_sum"), buffer, buffer, count, count));
        OK(cuStreamSynchronize(rank.stream));
        OK(cuMemcpyDtoH_v2(elements.data(), buffer, count * 4));
        for (u64 index = 0; index < count; ++index) {
            EXPECT(elements[index] == value(0, index + call) + value(1, index + call));
        }
    }
    OK(cuMemFree_v2(buffer));
    if (ipc) {
        OK(cuIpcCloseMemHandle(by_handle));
        OK(cuMemFree_v2(own));
    } else {
        by_descriptor.drop();
    }
    rank.close();
    u64 left[4];
    lanesumStandInLeaks(left);
    for (const u64 one : left) EXPECT(one == 0);
}

void processes(const std::vector<char>& image, bool ipc) {
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
    const pid_t child = fork();
    if (child == 0) {
        one_process(image, 1, sockets[1], ipc);
        std::_Exit(0);
    }
    one_process(image, 0, sockets[0], ipc);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

// A second process finds the exclusive device taken, and free again once the first has gone.
void exclusive() {
    Context* context;
    int status, to_child[2], to_parent[2];
    char byte = 0;
    EXPECT(pipe(to_child) == 0 && pipe(to_parent) == 0);
    const pid_t child = fork();
    if (child == 0) {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT(write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
        std::_Exit(0);
    }
    EXPECT(read(to_parent[0], &byte, 1) == 1);
    OK(cuInit(0));
    EXPECT_CODE(cuDevicePrimaryCtxRetain(&context, 0), 46);
    EXPECT(write(to_child[1], &byte, 1) == 1);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
}

// A child of fork has nothing of its parent's driver.
void forked() {
    int status;
    OK(cuInit(0));
    const pid_t child = fork();
    if (child == 0) {
        int devices;
        EXPECT_CODE(cuDeviceGetCount(&devices), 3);
        std::_Exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace
