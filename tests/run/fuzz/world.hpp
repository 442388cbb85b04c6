#pragma once

#include "calls.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t word = state_ += 0x9E3779B97F4A7C15;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
  }
  std::size_t below(std::size_t end) { return end == 0 ? 0 : next() % end; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename Value>
  const Value& of(const std::vector<Value>& values) {
    return values[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

struct Options {
  std::uint64_t seed = 0;
  int calls = 300;
  int threads = 1;
  bool per_thread = false;
};

/// A context of the program. Those of one kind are the primary ones of the GPUs.
struct Context {
  CUcontext handle = nullptr;
  int device = 0;
  bool primary = false;
  bool alive = true;
  std::size_t null_stream = 0;  ///< Its place in `World::streams`.
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUfunction add = nullptr;
};

struct Stream {
  CUstream handle = nullptr;
  std::size_t context = 0;
  bool blocking = false;
  bool built_in = false;
  bool alive = true;
};

enum class Kind { plain, pooled, mapped };

/// Memory whose bytes are determined: every use is ordered behind the one before.
struct Buffer {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  int device = 0;
  std::size_t context = 0;  ///< In which it was allocated, if it is plain.
  Kind kind = Kind::plain;
  std::size_t pool = 0;
  bool alive = true;
  bool everywhere = true;   ///< Copies of the other GPU may use it.
  int graphs = 0;           ///< Those that use it.
  std::size_t last = none;  ///< The stream whose later work comes after all uses of it.
  unsigned long long id = 0;

  static constexpr std::size_t none = SIZE_MAX;
};

struct Pool {
  CUmemoryPool handle = nullptr;
  int device = 0;
  bool standard = false;
  bool alive = true;
  bool everywhere = false;
};

/// A part of a buffer that something uses.
struct Part {
  std::size_t buffer = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  CUdeviceptr at = 0;
  std::string name;
};

/// A call that enqueues something on a stream.
struct Piece {
  std::string text;
  std::vector<std::size_t> buffers;
  std::function<CUresult(CUstream)> run;
};

/// What a node of a graph does, and on which GPUs its memory is. An update changes none of that.
struct NodeShape {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  int target = 0;
  int source = 0;  ///< Of a copy.

  static constexpr int host = -1;
};

/// A node of a graph that was built, not captured.
struct Node {
  CUgraphNode handle = nullptr;
  NodeShape shape;
};

struct Graph {
  CUgraph handle = nullptr;
  CUgraphExec exec = nullptr;
  std::size_t context = 0;
  std::vector<std::size_t> buffers;
  std::vector<Node> nodes;  ///< In a row; none if it was captured.
  bool alive = true;
};

/// Physical memory that the program maps itself, here or there in a reservation, with its contents.
struct Region {
  CUmemGenericAllocationHandle handle = 0;
  std::size_t slots = 0;
  std::size_t at = none;  ///< Its first slot; none while it is not mapped.
  std::size_t buffer = 0;
  bool released = false;  ///< Only the mapping keeps it.
  bool fresh = true;      ///< Was never mapped, so it has no contents.
  bool alive = true;

  static constexpr std::size_t none = SIZE_MAX;
};

struct Reservation {
  static constexpr std::size_t slots = 12;
  static constexpr std::size_t slot_bytes = std::size_t{2} << 20;
  CUdeviceptr begin = 0;
  int device = 0;
  std::vector<Region> regions;
};

/// What one thread of the program has, and how it prints what it does.
class World {
 public:
  World(const Options& options, int thread);
  /// The sequence of calls. Destroys all that is left.
  void play();

  Random random;
  const Options& options;
  const int thread;
  std::vector<Context> contexts;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  std::vector<Pool> pools;
  std::vector<Graph> graphs;
  Reservation reservation;              ///< Made by its first use.
  std::vector<CUstream> stale_streams;  ///< Streams that were destroyed.
  std::vector<unsigned char> source;    ///< What is copied to GPUs. Never changes.

  bool alone() const { return options.threads == 1; }
  /// Prints a call with its result.
  CUresult note(CUresult result, const char* format, ...) __attribute__((format(printf, 3, 4)));
  /// Prints what a call has answered.
  void say(const char* format, ...) __attribute__((format(printf, 2, 3)));

  std::string name_of(std::size_t buffer, std::size_t offset) const;

  // --- Contexts
  void enter(std::size_t context);
  std::size_t add_context(CUcontext handle, int device, bool primary);
  void create_context();
  void destroy_context(std::size_t context);
  /// Any that lives; for captures, one that no other thread uses.
  std::size_t any_context(bool own = false);

  // --- Streams
  std::size_t create_stream(std::size_t context);
  void destroy_stream(std::size_t stream);
  std::size_t any_stream(std::size_t context, bool capturing = false);
  void wait_for(std::size_t stream);
  /// Later work of the stream comes after all uses of the buffers.
  void order(const std::vector<std::size_t>& used, std::size_t stream);
  void used(const std::vector<std::size_t>& used, std::size_t stream);

  // --- Buffers
  /// Null if there is none. `reached` asks for one that work of the context's GPU may use.
  std::size_t any_buffer(int device, bool local);
  std::size_t add_buffer(Buffer made);
  void fill_all(std::size_t buffer, std::size_t stream);
  void read(std::size_t buffer);
  void enqueue(const Piece& piece, std::size_t stream);

 private:
  void print(const std::string& line);
};

// --- What it does by chance
/// Of at most so many bytes, a multiple of `unit` at such an offset. Empty if there is none.
Part part_of(World& world, std::size_t buffer, std::size_t unit, std::size_t bytes_max);
Piece any_piece(World& world, std::size_t context, bool in_graph);
Piece wait_a_while(World& world);
void allocate(World& world);
void free_some(World& world);
void free_buffer(World& world, std::size_t buffer);
void copy_now(World& world);
void ask(World& world);
void misuse(World& world);
/// Of an address that was freed by the call before.
void misuse_freed(World& world, CUdeviceptr freed, std::size_t context);
void misuse_in_capture(World& world);
void use_streams(World& world);
void use_graphs(World& world);
/// Has no executable graph if there is no memory for it.
Graph build_graph(World& world, std::size_t context);
/// Other parameters of one node, or of all.
void change_nodes(World& world, std::size_t graph);
void destroy_graph(World& world, std::size_t graph);
void use_pools(World& world);
void use_mappings(World& world);
void end_mappings(World& world);

/// Of memory on the host.
std::uint64_t digest(const unsigned char* bytes, std::size_t count);
/// Sizes around the thresholds.
std::size_t any_size(Random& random);
void work_a_while(void* nanoseconds);

}  // namespace fuzz
