// Graphs, the executables made of them, and the user objects that both keep alive.
#pragma once
#include "streams.hpp"

namespace standin {

// Something captured, and what it comes after.
struct Node {
    Operation operation;
    std::vector<Node*> after;
};

struct UserObject;

// So many references to a user object; its destructor runs once all are gone, on a thread of its own.
class Reference {
  public:
    // Takes over references that were counted before.
    Reference(UserObject* object, unsigned count) : object_(object), count_(count) {}
    Reference(Reference&& other) noexcept : object_(other.object_), count_(other.count_) { other.count_ = 0; }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    Reference& operator=(Reference&&) = delete;
    ~Reference();
    // One more, for somebody else.
    Reference another() const;

  private:
    UserObject* object_;
    unsigned count_;
};

struct Graph {
    bool capturing = true;
    std::vector<std::unique_ptr<Node>> nodes;  // each after those that it depends on
    std::vector<Reference> references;
};

// A graph for a capture, which only that may change and remove.
Graph* make_graph();
void remove_graph(Graph* graph);
// The capture has ended: the graph can be instantiated and destroyed.
void release_graph(Graph* graph);

}  // namespace standin
