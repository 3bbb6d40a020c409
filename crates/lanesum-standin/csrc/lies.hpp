// Devices whose stores do not arrive as they should: what a rank that proves access to its peers must find out.
#pragma once
#include "config.hpp"

namespace standin {

// Of stores on `device` to memory of `owner`.
inline Lie lie_of(int device, int owner) {
    if (owner == REGISTERED) return config().host_lies[device];
    return owner == HOST ? Lie::None : config().lies[device][owner];
}
// Whether anybody's stores to memory of `owner` land in a private copy.
bool lies_mirror(int owner);
// Stores the word half a second from now, if the place is still there.
void store_late(int device, void* to, u32 size, u64 word);

}  // namespace standin
