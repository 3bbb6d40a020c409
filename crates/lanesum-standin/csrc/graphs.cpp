#include "graphs.hpp"

#include <climits>
#include <set>
#include <thread>

#include "captures.hpp"

namespace standin {

struct UserObject {
    void* pointer;
    void (*destroy)(void*);
    u64 count;  // all references
    u64 own;    // those of them that belong to the program, not to a graph or an executable
};

namespace {

// What an executable runs. Launches in flight share it, so that it may be destroyed meanwhile.
struct Program {
    std::vector<Operation> operations;
    std::vector<Reference> references;
};

struct Executable {
    std::shared_ptr<const Program> program;
    std::shared_ptr<Mark> last;  // end of the last launch; null before the first
};

struct Books {
    std::mutex mutex;
    std::set<Graph*> graphs;
    std::set<Executable*> executables;
};
Books& books() {
    static Books* const all = new Books;
    return *all;
}

// Apart from the books, as references end while those are held. Nothing else is locked with this mutex held.
struct Objects {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<UserObject*> living;
    std::deque<UserObject*> dead;
    bool served = false;
};
Objects& objects() {
    static Objects* const all = new Objects;
    return *all;
}

// Runs destructors, none of which may call the driver.
void bury() {
    in_destructor() = true;
    std::unique_lock<std::mutex> guard(objects().mutex);
    for (;;) {
        objects().changed.wait(guard, [] { return !objects().dead.empty(); });
        const std::unique_ptr<UserObject> object(objects().dead.front());
        objects().dead.pop_front();
        guard.unlock();
        object->destroy(object->pointer);
        guard.lock();
    }
}

// With the mutex held.
void release(UserObject* object, u64 count) {
    object->count -= count;
    if (object->count != 0) return;
    objects().living.erase(object);
    --counters().handles;
    objects().dead.push_back(object);
    if (!objects().served) std::thread(bury).detach();
    objects().served = true;
    objects().changed.notify_one();
}

// Deletes the graph, if there is one that is captured now or not.
bool take(Graph* graph, bool capturing) {
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().graphs.count(graph) == 0 || graph->capturing != capturing) return false;
    books().graphs.erase(graph);
    --counters().handles;
    delete graph;
    return true;
}

bool countable(unsigned count) { return count != 0 && count <= INT_MAX; }

const unsigned NO_DESTRUCTOR_SYNC = 1;  // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, without which nothing can be created
const unsigned MOVE = 1;                // CU_GRAPH_USER_OBJECT_MOVE
const u64 AUTO_FREE = 1, NODE_PRIORITY = 8;

}  // namespace

Reference::~Reference() {
    if (count_ == 0) return;
    std::lock_guard<std::mutex> guard(objects().mutex);
    release(object_, count_);
}

Reference Reference::another() const {
    std::lock_guard<std::mutex> guard(objects().mutex);
    ++object_->count;
    return Reference(object_, 1);
}

Graph* make_graph() {
    Graph* const made = new Graph;
    std::lock_guard<std::mutex> guard(books().mutex);
    books().graphs.insert(made);
    ++counters().handles;
    return made;
}

void remove_graph(Graph* graph) { take(graph, true); }

void release_graph(Graph* graph) {
    std::lock_guard<std::mutex> guard(books().mutex);
    graph->capturing = false;
}

}  // namespace standin

using namespace standin;

LANESUM_API cuGraphGetNodes(Graph* graph, Node** nodes, size_t* count) {
    LANESUM_ENTER(cuGraphGetNodes);
    std::lock_guard<std::mutex> guard(books().mutex);
    if (count == nullptr || books().graphs.count(graph) == 0 || graph->capturing) return INVALID_VALUE;
    const size_t there = graph->nodes.size(), room = nodes == nullptr ? 0 : *count;
    for (size_t index = 0; index < room; ++index) nodes[index] = index < there ? graph->nodes[index].get() : nullptr;
    *count = nodes == nullptr || room > there ? there : room;
    return SUCCESS;
}

LANESUM_API cuGraphDestroy(Graph* graph) {
    LANESUM_ENTER(cuGraphDestroy);
    return take(graph, false) ? SUCCESS : INVALID_VALUE;
}

LANESUM_API cuGraphInstantiateWithFlags(Executable** out, Graph* graph, unsigned long long flags) {
    LANESUM_ENTER(cuGraphInstantiateWithFlags);
    if (out == nullptr || (flags & ~(AUTO_FREE | NODE_PRIORITY)) != 0) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().graphs.count(graph) == 0 || graph->capturing) return INVALID_VALUE;
    auto program = std::make_shared<Program>();
    for (const auto& node : graph->nodes) program->operations.push_back(node->operation);
    for (const Reference& reference : graph->references) program->references.push_back(reference.another());
    Executable* const made = new Executable{std::move(program), nullptr};
    books().executables.insert(made);
    ++counters().handles;
    *out = made;
    return SUCCESS;
}

LANESUM_API cuGraphExecDestroy(Executable* executable) {
    LANESUM_ENTER(cuGraphExecDestroy);
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().executables.erase(executable) == 0) return INVALID_VALUE;
    --counters().handles;
    delete executable;
    return SUCCESS;
}

// Nodes run one after the other, which their dependencies allow. A launch waits for the one before it on whatever stream.
LANESUM_API cuGraphLaunch(Executable* executable, Stream* handle) {
    LANESUM_ENTER(cuGraphLaunch);
    LANESUM_STREAM;
    // The real driver would make it a child graph.
    if (const CUresult refused = refuse_in_capture(stream)) return refused;
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().executables.count(executable) == 0) return INVALID_VALUE;
    const auto program = executable->program;
    const auto before = executable->last, end = std::make_shared<Mark>();
    executable->last = end;
    const auto run = [program, before](bool alive) {
        if (before != nullptr) before->wait();
        for (const Operation& operation : program->operations) operation(alive);
    };
    return stream->enqueue(run, end);
}

LANESUM_API cuUserObjectCreate(UserObject** out, void* pointer, void (*destroy)(void*), unsigned count, unsigned flags) {
    LANESUM_ENTER(cuUserObjectCreate);
    if (out == nullptr || destroy == nullptr || !countable(count) || flags != NO_DESTRUCTOR_SYNC) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(objects().mutex);
    *out = new UserObject{pointer, destroy, count, count};
    objects().living.insert(*out);
    ++counters().handles;
    return SUCCESS;
}

LANESUM_API cuUserObjectRetain(UserObject* object, unsigned count) {
    LANESUM_ENTER(cuUserObjectRetain);
    std::lock_guard<std::mutex> guard(objects().mutex);
    if (objects().living.count(object) == 0 || !countable(count)) return INVALID_VALUE;
    object->count += count;
    object->own += count;
    return SUCCESS;
}

LANESUM_API cuUserObjectRelease(UserObject* object, unsigned count) {
    LANESUM_ENTER(cuUserObjectRelease);
    std::lock_guard<std::mutex> guard(objects().mutex);
    if (objects().living.count(object) == 0 || !countable(count) || count > object->own) return INVALID_VALUE;
    object->own -= count;
    release(object, count);
    return SUCCESS;
}

// Also of a graph that is being captured.
LANESUM_API cuGraphRetainUserObject(Graph* graph, UserObject* object, unsigned count, unsigned flags) {
    LANESUM_ENTER(cuGraphRetainUserObject);
    if (!countable(count) || (flags & ~MOVE) != 0) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().graphs.count(graph) == 0) return INVALID_VALUE;
    {
        std::lock_guard<std::mutex> counting(objects().mutex);
        if (objects().living.count(object) == 0) return INVALID_VALUE;
        if (flags == MOVE && count > object->own) return INVALID_VALUE;
        if (flags == MOVE) object->own -= count;
        else object->count += count;
    }
    graph->references.emplace_back(object, count);
    return SUCCESS;
}
