// oneCCL as an engine of `lanesum bench`: ccl::allreduce by sum, in place, on private buffers, back to back.
//
// Usage: mpiexec -n RANKS oneccl_all_reduce FOLDER CPUS SECONDS, with the Intel MPI that its fast transport needs
//
// Pipes, orders, answers and the loop are those of mpi_all_reduce.c, which says what they are: change all together.
#include <oneapi/ccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <csignal>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

void say(const std::string &line)
{
    std::cout << line << std::endl;
}

[[noreturn]] void end(const char *event, const std::string &reason)
{
    say(std::string("{\"event\":\"") + event + "\",\"reason\":\"" + reason + "\"}");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::_Exit(1);
}

void pin(const std::string &cpus, int rank)
{
    if (cpus == "-")
        return;
    std::istringstream list(cpus);
    std::string cpu;
    for (int place = 0; place <= rank; place++)
        std::getline(list, cpu, ',');
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(std::atoi(cpu.c_str()), &own);
    if (sched_setaffinity(0, sizeof own, &own) != 0)
        end("failed", "cannot stay on its CPU");
}

// A whole number below 16: sums of sixteen ranks are exact in every type and in every order.
std::uint32_t number(std::uint32_t rank, std::uint32_t index, std::uint32_t salt)
{
    std::uint32_t mixed = (index ^ rank * 0x9e3779b9u ^ salt * 0x85ebca6bu) * 0x2c1b3c6du;
    mixed = (mixed ^ mixed >> 15) * 0x297a2d39u;
    return mixed >> 28;
}

void put(float &element, float value)
{
    element = value;
}

float get(float element)
{
    return element;
}

void put(std::uint16_t &element, float value)
{
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    element = static_cast<std::uint16_t>(bits >> 16);
}

float get(std::uint16_t element)
{
    std::uint32_t bits = std::uint32_t(element) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct Order {
    std::string dtype, buffers;
    std::size_t elements = 0, warm_ups = 0, calls = 0;
    std::uint32_t salt = 0;
};

struct Ranks {
    int rank, world;
    ccl::communicator &communicator;
    ccl::stream &stream;
};

template <typename T>
void all_reduce(Ranks &ranks, T *buffer, std::size_t elements, ccl::datatype type)
{
    ccl::allreduce(buffer, buffer, elements, type, ccl::reduction::sum, ranks.communicator, ranks.stream).wait();
}

template <typename T>
void check(Ranks &ranks, T *buffer, std::size_t elements, ccl::datatype type, std::uint32_t salt)
{
    for (std::size_t index = 0; index < elements; index++)
        put(buffer[index], float(number(std::uint32_t(ranks.rank), std::uint32_t(index), salt)));
    all_reduce(ranks, buffer, elements, type);
    for (std::size_t index = 0; index < elements; index++) {
        float expected = 0, found = get(buffer[index]);
        for (int other = 0; other < ranks.world; other++)
            expected += float(number(std::uint32_t(other), std::uint32_t(index), salt));
        if (found != expected) {
            std::ostringstream reason;
            reason << "rank " << ranks.rank << ": element " << index << " is " << found << ", expected " << expected;
            end("wrong", reason.str());
        }
    }
}

template <typename T>
void measure(Ranks &ranks, const Order &order, ccl::datatype type)
{
    std::size_t bytes = (order.elements * sizeof(T) + 63) / 64 * 64;
    std::unique_ptr<T, decltype(&std::free)> memory(static_cast<T *>(std::aligned_alloc(64, bytes)), &std::free);
    T *buffer = memory.get();
    if (buffer == nullptr)
        end("failed", "no memory");
    check(ranks, buffer, order.elements, type, 2 * order.salt);
    std::memset(static_cast<void *>(buffer), 0, order.elements * sizeof(T));
    for (std::size_t call = 0; call < order.warm_ups; call++)
        all_reduce(ranks, buffer, order.elements, type);
    ccl::barrier(ranks.communicator, ranks.stream).wait();
    std::vector<double> times(order.calls);
    for (double &time : times) {
        auto started = std::chrono::steady_clock::now();
        all_reduce(ranks, buffer, order.elements, type);
        time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - started).count();
    }
    check(ranks, buffer, order.elements, type, 2 * order.salt + 1);
    std::sort(times.begin(), times.end());
    double own[2] = {times[(order.calls + 1) / 2 - 1], times[(order.calls * 99 + 99) / 100 - 1]}, slowest[2];
    ccl::allreduce(own, slowest, 2, ccl::datatype::float64, ccl::reduction::max, ranks.communicator, ranks.stream).wait();
    // Before anything is said: the next probe of the cores is not to meet it.
    memory.reset();
    ccl::barrier(ranks.communicator, ranks.stream).wait();
    if (ranks.rank != 0)
        return;
    char line[128];
    std::snprintf(line, sizeof line, "{\"event\":\"point\",\"p50\":%.4f,\"p99\":%.4f,\"algorithm\":null}", slowest[0], slowest[1]);
    say(line);
}

void obey(Ranks &ranks, const std::string &line)
{
    Order order;
    std::istringstream words(line);
    words >> order.dtype >> order.buffers >> order.elements >> order.warm_ups >> order.calls >> order.salt;
    if (!words || order.elements == 0 || order.calls == 0)
        end("failed", "cannot read its order");
    if (order.dtype == "f32")
        measure<float>(ranks, order, ccl::datatype::float32);
    else if (order.dtype == "bf16")
        measure<std::uint16_t>(ranks, order, ccl::datatype::bfloat16);
    else if (ranks.rank == 0)
        say("{\"event\":\"missing\",\"reason\":\"this bench has no sum of " + order.dtype + " for it\"}");
}

// Rank 0 makes the store through which the ranks meet; the others read its address, which appears whole.
ccl::shared_ptr_class<ccl::kvs> met(const std::string &folder, int rank)
{
    std::string path = folder + "/oneccl";
    if (rank == 0) {
        auto store = ccl::create_main_kvs();
        auto address = store->get_address();
        std::ofstream(path + ".part", std::ios::binary).write(reinterpret_cast<const char *>(address.data()), std::streamsize(address.size()));
        std::rename((path + ".part").c_str(), path.c_str());
        return store;
    }
    ccl::kvs::address_type address;
    std::ifstream file;
    while (!file.is_open()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        file.open(path, std::ios::binary);
    }
    file.read(reinterpret_cast<char *>(address.data()), std::streamsize(address.size()));
    return ccl::create_kvs(address);
}

} // namespace

int main(int count, char **words)
{
    const char *rank_word = std::getenv("PMI_RANK"), *world_word = std::getenv("PMI_SIZE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count != 4 || rank_word == nullptr || world_word == nullptr)
        end("failed", "usage: mpiexec -n RANKS oneccl_all_reduce FOLDER CPUS SECONDS");
    int rank = std::atoi(rank_word), world = std::atoi(world_word), seconds = std::atoi(words[3]);
    try {
        pin(words[2], rank);
        std::ifstream orders(std::string(words[1]) + "/rank-" + rank_word);
        alarm(unsigned(seconds));
        ccl::init();
        auto store = met(words[1], rank);
        auto communicator = ccl::create_communicator(world, rank, store);
        auto stream = ccl::create_stream();
        Ranks ranks{rank, world, communicator, stream};
        ccl::barrier(communicator, stream).wait();
        auto version = ccl::get_library_version();
        if (rank == 0)
            say("{\"event\":\"ready\",\"ranks\":" + std::string(world_word) + ",\"version\":\"oneCCL " + version.full + "\"}");
        alarm(0);
        for (std::string order; std::getline(orders, order);) {
            alarm(unsigned(seconds));
            obey(ranks, order);
            alarm(0);
        }
    } catch (const std::exception &error) {
        std::string reason = error.what();
        std::replace_if(reason.begin(), reason.end(), [](char letter) { return letter < ' ' || letter == '"' || letter == '\\'; }, ' ');
        end("failed", reason);
    }
    return 0;
}
