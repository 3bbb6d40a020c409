// The header in C++, where it is wrapped as its users would.
#include <lanesum.h>
#include <lanesum.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

struct Ends {
    void operator()(lanesum_communicator *communicator) const { lanesum_free(communicator); }
    void operator()(lanesum_error *error) const { lanesum_error_free(error); }
};

void well(lanesum_status status, lanesum_error *error) {
    const std::unique_ptr<lanesum_error, Ends> ended(error);
    if (status != LANESUM_STATUS_OK) {
        throw std::runtime_error(lanesum_error_message(error));
    }
}

} // namespace

int main() {
    lanesum_error *error = nullptr;
    lanesum_communicator *made = nullptr;
    well(lanesum_join_from_env(LANESUM_ABI_VERSION, nullptr, &made, &error), error);
    const std::unique_ptr<lanesum_communicator, Ends> communicator(made);
    float tensor[3] = {1, 2, 3};
    lanesum_call call = LANESUM_CALL_INIT;
    call.input = call.output = tensor;
    call.elements = 3;
    call.dtype = LANESUM_DTYPE_F32;
    well(lanesum_all_reduce(communicator.get(), &call, nullptr, &error), error);
    well(lanesum_close(communicator.get(), &error), error);
    std::puts(tensor[2] == 6 ? "well" : "wrong");
}
