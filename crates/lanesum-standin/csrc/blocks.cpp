#include "blocks.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <sched.h>
#include <sys/prctl.h>
#include <thread>
#include <time.h>

#include "fibers.hpp"
#include "memory.hpp"

namespace standin {

thread_local Place* here __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

enum class State : u8 { Ready, AtBarrier, Ended };

// What an OS thread needs to run one block after the other.
struct Runner : Place {
    View view;
    std::vector<std::unique_ptr<Stack>> stacks;
    std::vector<Suspended> fibers;
    std::vector<State> states;
    Suspended scheduler = nullptr;
    const Grid* grid = nullptr;
    bool any = false;     // brought to the barrier that fills
    bool result = false;  // of the barrier that was passed last
};

Runner& runner() { return *static_cast<Runner*>(here); }

void hand_over(State state) {
    Runner& self = runner();
    const u32 thread = self.thread;
    self.states[thread] = state;
    lanesum_standin_switch(&self.fibers[thread], self.scheduler);
}

void run_fiber() {
    const Grid& grid = *runner().grid;
    grid.kernel->body(grid.parameters);
    hand_over(State::Ended);
    __builtin_unreachable();
}

[[noreturn]] void refuse(const void* address) {
    Runner& self = runner();
    const char* const name = self.grid->kernel->name.c_str();
    std::fprintf(stderr, "stand-in: access outside every allocation: %s %p\n", name, address);
    int healthy = 0;
    self.grid->context->dead.compare_exchange_strong(healthy, ILLEGAL_ADDRESS);
    // The scheduler sees that the context is dead and never comes back here.
    hand_over(State::Ended);
    __builtin_unreachable();
}

// Waits a little, longer the longer nothing has happened.
void rest(u32 fruitless) {
    if (fruitless < 32) {
        sched_yield();
        return;
    }
    const long longest = fruitless < 1000 ? 50000 : 1000000;
    const long wanted = 2000l * (fruitless - 31);
    timespec pause = {0, wanted < longest ? wanted : longest};
    nanosleep(&pause, nullptr);
}

void open_barrier(Runner& self) {
    self.result = self.any;
    self.any = false;
    for (State& state : self.states) {
        if (state == State::AtBarrier) state = State::Ready;
    }
}

void set_up(Runner& self, const Grid& grid, u32 block) {
    self.grid = &grid;
    self.threads = grid.threads;
    self.block = block;
    self.blocks = grid.blocks;
    self.any = false;
    // Sights of another device's blocks are void.
    if (self.view.device != grid.context->device) self.view = View();
    self.view.device = grid.context->device;
    while (self.stacks.size() < grid.threads) self.stacks.emplace_back(new Stack);
    self.fibers.resize(grid.threads);
    self.states.assign(grid.threads, State::Ready);
    for (u32 thread = 0; thread < grid.threads; ++thread) self.fibers[thread] = self.stacks[thread]->prepare(run_fiber);
}

// One turn of all fibers; whether any of them is still to run.
bool turn(Runner& self) {
    bool alive = false;
    for (u32 thread = 0; thread < self.threads; ++thread) {
        if (self.states[thread] == State::Ready) {
            self.thread = thread;
            lanesum_standin_switch(&self.scheduler, self.fibers[thread]);
            if (self.grid->context->dead.load(std::memory_order_relaxed) != 0) return false;
        }
        alive |= self.states[thread] != State::Ended;
    }
    return alive;
}

// A place for a block on its device, where the configuration limits them.
class Residence {
  public:
    explicit Residence(Context* context) : device_(context->device), limited_(config().resident != 0) {
        if (!limited_) return;
        std::unique_lock<std::mutex> guard(places().mutex);
        // A dead context's blocks need no place: they end at once.
        while (places().taken[device_] >= config().resident && context->dead.load() == 0) {
            places().changed.wait_for(guard, std::chrono::milliseconds(10));
        }
        ++places().taken[device_];
    }
    ~Residence() {
        if (!limited_) return;
        std::lock_guard<std::mutex> guard(places().mutex);
        --places().taken[device_];
        places().changed.notify_all();
    }
    Residence(const Residence&) = delete;
    Residence& operator=(const Residence&) = delete;

  private:
    struct Places {
        std::mutex mutex;
        std::condition_variable changed;
        int taken[DEVICES_MAX] = {};
    };
    static Places& places() {
        static Places* const all = new Places;
        return *all;
    }

    int device_;
    bool limited_;
};

void run_block(const Grid& grid, u32 block) {
    const Residence residence(grid.context);
    // On the heap: what a library that is loaded late may have of static thread storage is a matter of luck.
    static thread_local const std::unique_ptr<Runner> own(new Runner);
    Runner& self = *own;
    here = &self;
    set_up(self, grid, block);
    u32 fruitless = 0;
    for (;;) {
        const u64 stores = self.stores;
        if (grid.context->dead.load() != 0 || !turn(self)) break;
        bool waiting = false;
        for (const State state : self.states) waiting |= state == State::Ready;
        if (!waiting) {
            // Fibers that have ended are counted as come, as the hardware does.
            open_barrier(self);
            fruitless = 0;
        } else if (self.stores != stores) {
            fruitless = 0;
        } else {
            rest(fruitless++);
        }
    }
    here = nullptr;
}

// OS threads for blocks; as many as ever ran at once.
class Pool {
  public:
    void start(std::function<void()> work) {
        std::lock_guard<std::mutex> guard(mutex_);
        queue_.push_back(std::move(work));
        if (idle_ >= queue_.size()) {
            changed_.notify_one();
        } else {
            std::thread([this] { serve(); }).detach();
        }
    }

  private:
    void serve() {
        prctl(PR_SET_NAME, "standin-block");
        prctl(PR_SET_TIMERSLACK, 1000);
        std::unique_lock<std::mutex> guard(mutex_);
        for (;;) {
            ++idle_;
            changed_.wait(guard, [this] { return !queue_.empty(); });
            --idle_;
            const std::function<void()> work = std::move(queue_.front());
            queue_.pop_front();
            guard.unlock();
            work();
            guard.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    size_t idle_ = 0;
};

std::map<std::string, Kernel>& kernels() {
    static auto* const all = new std::map<std::string, Kernel>;
    return *all;
}

struct Countdown {
    std::mutex mutex;
    std::condition_variable changed;
    u32 left;
};

}  // namespace

void spin() { hand_over(State::Ready); }

bool meet(bool mine) {
    Runner& self = runner();
    self.any |= mine;
    hand_over(State::AtBarrier);
    return self.result;
}

const void* source(const void* from, u32 size) {
    const void* place;
    if (!look_up(runner().view, from, size, &place)) refuse(from);
    return place;
}

void* target(void* to, u32 size, u64 word) {
    void* place;
    if (!look_up_store(runner().view, to, size, word, &place)) refuse(to);
    ++runner().stores;
    return place;
}

Entry::Entry(const char* name, u32 parameters, Body body) { kernels()[name] = {name, parameters, body}; }

const Kernel* kernel(const std::string& name) {
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

void execute(const std::shared_ptr<Grid>& grid) {
    static Pool* const pool = new Pool;
    auto countdown = std::make_shared<Countdown>();
    countdown->left = grid->blocks - 1;
    for (u32 block = 1; block < grid->blocks; ++block) {
        pool->start([grid, block, countdown] {
            run_block(*grid, block);
            std::lock_guard<std::mutex> guard(countdown->mutex);
            if (--countdown->left == 0) countdown->changed.notify_one();
        });
    }
    run_block(*grid, 0);
    std::unique_lock<std::mutex> guard(countdown->mutex);
    countdown->changed.wait(guard, [&] { return countdown->left == 0; });
}

}  // namespace standin
