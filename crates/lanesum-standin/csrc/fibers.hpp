// Fibers: stacks of their own on one OS thread, changed by hand.
#pragma once
#include <vector>

#include "words.hpp"

namespace standin {

// A suspended stack: where its stack pointer stands.
typedef void* Suspended;

// Suspends the caller in `from` and continues `to`. Callee-saved registers and nothing else are kept.
extern "C" void lanesum_standin_switch(Suspended* from, Suspended to);

// 64 KiB below a guard page, kept by each OS thread for its next block.
class Stack {
  public:
    Stack();
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;
    // A fiber that will call `start`, which must not return.
    Suspended prepare(void (*start)());

  private:
    u8* bottom_;
};

}  // namespace standin
