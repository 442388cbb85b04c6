#pragma once

#include <vma/export.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#define VMART_POLICY_TEXT_OF(value) #value
#define VMART_POLICY_TEXT(value) VMART_POLICY_TEXT_OF(value)

namespace vma::inline v1 {

/// A proposal to move a chunk.
struct Move {
  ChunkId chunk{};
  PlaceId to{};
  /// Expected seconds of access saved, minus the seconds that the move costs. Of moves that compete
  /// for room or for a route, the one with the most value per byte goes first.
  double value = 0;
  /// Explanation for the decision log: "gpu(2) uses it 4.1 GB/s". Never empty.
  std::string reason;
  /// The move only makes room for others. It has no value of its own and is never made for a colder
  /// chunk.
  bool victim = false;
  /// If a read-only chunk moves from host memory to HBM, its host memory stays as a clean copy, so
  /// that the way back costs nothing. See `MigrateOptions::keep_clean_copy`.
  bool keep_copy = false;
  /// Of a victim: the policy knows that it is used later than what it makes room for. So it may go
  /// although it was used more until now.
  bool foreseen = false;
};

/// Proposals of a policy, in order. The planner checks them: a plan can be useless, but not
/// harmful.
class Plan {
 public:
  void move(ChunkId chunk, PlaceId to, double value, std::string reason, bool keep_copy = false) {
    moves_.push_back({chunk, to, value, std::move(reason), false, keep_copy, false});
  }
  void evict(ChunkId chunk, PlaceId to, std::string reason, bool foreseen = false) {
    moves_.push_back({chunk, to, 0, std::move(reason), true, false, foreseen});
  }
  /// Under pressure: what is not evicted so far is worth as much as what comes. If that can go
  /// elsewhere (`Pressure::elsewhere`), the planner evicts nothing more.
  void decline() noexcept { declines_ = true; }
  bool declines() const noexcept { return declines_; }
  std::span<const Move> moves() const noexcept { return moves_; }
  bool empty() const noexcept { return moves_.empty(); }
  void clear() noexcept {
    moves_.clear();
    declines_ = false;
  }

 private:
  std::vector<Move> moves_;
  bool declines_ = false;
};

/// An allocation for which the program named no place.
struct AllocRequest {
  std::uint64_t bytes = 0;        ///< All chunks together.
  std::uint64_t chunk_bytes = 0;  ///< Each chunk except the last, which may be shorter.
  PlaceId device{};               ///< The GPU of the caller's current context.
  std::string_view tag;
};

/// How one GPU used one chunk since the last report, about a millisecond ago; or a hint.
struct UseEvent {
  ChunkId chunk{};
  PlaceId device{};
  double bytes_read = 0, bytes_written = 0;  ///< Half in each if the direction is unknown.
  const Hint* hint = nullptr;  ///< Not null: the program announced a use; nothing was used yet.
  double bytes() const { return bytes_read + bytes_written; }
};

/// A place needs free memory.
struct Pressure {
  PlaceId at{};
  std::uint64_t bytes = 0;  ///< Bytes to free.
  PlaceId device{};         ///< The GPU that will use the freed memory; `at` if unknown.
  bool elsewhere = false;   ///< What needs the memory goes to the next place if there is none.
};

/// Result of a move that the policy proposed.
struct MoveResult {
  ChunkId chunk{};
  PlaceId from{}, to{};
  bool moved = false;
  Time took{0};   ///< The move itself, without waiting for programs to stop.
  Time stall{0};  ///< The longest stall of its migration.
};

/// Decides what lies where. A policy is pure: it acts only through its return values, keeps its
/// state in itself, and takes randomness from the seed in its parameters. One thread at a time
/// calls it, but not always the same thread. If a call throws or takes longer than the scheduler's
/// limit, its plan is dropped; after std::bad_alloc, a new policy of its kind replaces it.
class VMART_EXPORT Policy {
 public:
  virtual ~Policy();

  /// Chooses the place of each chunk of the request. On entry, `chunks` holds the fastest places of
  /// the device that have room.
  virtual void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                        std::span<PlaceId> chunks);
  /// Called once per chunk and GPU that used it, about a millisecond after the use.
  virtual void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan);
  /// Proposes victims, best first, that free `pressure.bytes`. If they free too little, the planner
  /// adds the coldest chunks, each to the fastest place with room, unless the plan declines.
  virtual void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan);
  virtual void on_tick(const Snapshot& snapshot, Plan& plan);
  virtual void on_result(const MoveResult& result, const Snapshot& snapshot);
  /// The chunk no longer exists, or its id is about to be reused.
  virtual void on_gone(ChunkId chunk);
  /// Prefetch: `on_use` is about to be called for the chunk. A policy that keeps something of each
  /// chunk may bring that into the CPU cache, so that of many uses none waits for memory alone.
  virtual void prepare(ChunkId chunk) const;
};

/// One parameter of a policy.
struct PolicyParameter {
  enum class Type { number, duration, size, count, flag };
  std::string name;
  Type type = Type::number;
  double otherwise = 0;  ///< Default. Durations in seconds, sizes in bytes.
  double least = 0, most = 0;
  std::string meaning;
};

/// Values of all parameters of a policy, by name, in the units of `PolicyParameter`.
class VMART_EXPORT PolicyValues {
 public:
  void set(const std::string& name, double value) { values_[name] = value; }
  /// Requires: the policy has this parameter.
  double operator[](const std::string& name) const { return values_.at(name); }
  Time duration(const std::string& name) const {
    return std::chrono::duration_cast<Time>(std::chrono::duration<double>(values_.at(name)));
  }
  std::uint64_t count(const std::string& name) const {
    return static_cast<std::uint64_t>(values_.at(name));
  }
  bool flag(const std::string& name) const { return values_.at(name) != 0; }

 private:
  std::map<std::string, double> values_;
};

/// A policy by name: `VMART_POLICY=name:parameter=value,parameter=value`.
struct PolicyKind {
  std::string name;
  std::string source;  ///< The paper, book or operating-system kernel that it comes from.
  std::vector<PolicyParameter> parameters;
  std::function<std::unique_ptr<Policy>(const PolicyValues& values)> make;
};

/// Version of the binary interface of policies. A library is loaded only if it was built with the
/// same version. Before 1.0, each minor version may break it.
inline constexpr char policy_interface_version[16] = "0.2";
inline constexpr std::uint32_t policy_api_version = 3;
inline constexpr char policy_compiler[64] =
#if defined(__clang__)
    "clang " VMART_POLICY_TEXT(__clang_major__)
#elif defined(__GNUC__)
    "gcc " VMART_POLICY_TEXT(__GNUC__)
#endif
#if defined(_LIBCPP_VERSION)
        ", libc++ " VMART_POLICY_TEXT(_LIBCPP_VERSION);
#elif defined(__GLIBCXX__)
        ", libstdc++ abi " VMART_POLICY_TEXT(_GLIBCXX_USE_CXX11_ABI);
#else
    ", other library";
#endif

/// Hash of the sizes and alignments of all types that pass between the runtime and a policy.
constexpr std::uint64_t policy_layout() {
  const std::uint64_t parts[] = {sizeof(ChunkRow),
                                 sizeof(Heat),
                                 sizeof(PlaceState),
                                 sizeof(MachineCosts),
                                 sizeof(Snapshot),
                                 sizeof(SnapshotTables),
                                 sizeof(Hint),
                                 sizeof(Move),
                                 sizeof(Plan),
                                 sizeof(AllocRequest),
                                 sizeof(UseEvent),
                                 sizeof(Pressure),
                                 sizeof(MoveResult),
                                 sizeof(Policy),
                                 sizeof(PolicyValues),
                                 sizeof(PolicyParameter),
                                 sizeof(PolicyKind),
                                 sizeof(std::string),
                                 sizeof(std::max_align_t),
                                 offsetof(Move, keep_copy),
                                 offsetof(Move, foreseen),
                                 alignof(ChunkRow),
                                 alignof(UseEvent),
                                 alignof(std::max_align_t)};
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a.
  for (const std::uint64_t part : parts) sum = (sum ^ part) * 1099511628211u;
  return sum;
}

/// What a policy library exports as `vmart_policies`; see `VMART_EXPORT_POLICY`. Everything before
/// `kinds` is plain bytes, so that it can be checked before anything is called.
struct PolicyLibrary {
  std::uint64_t size = sizeof(PolicyLibrary);
  std::uint32_t api_version = policy_api_version;
  std::uint32_t alignment = alignof(std::max_align_t);
  std::uint64_t layout = policy_layout();
  char version[16] = {};
  char compiler[64] = {};
  std::vector<PolicyKind> (*kinds)() = nullptr;
};

constexpr PolicyLibrary policy_library(std::vector<PolicyKind> (*kinds)()) {
  PolicyLibrary library;
  for (std::size_t i = 0; i < sizeof library.version; ++i)
    library.version[i] = policy_interface_version[i];
  for (std::size_t i = 0; i < sizeof library.compiler; ++i)
    library.compiler[i] = policy_compiler[i];
  library.kinds = kinds;
  return library;
}

}  // namespace vma::inline v1

/// Exports the policies of a shared object: `VMART_POLICY=/path/to/it.so:parameter=value`, or
/// `NAME@/path/to/it.so:parameter=value` if it has several. Use one of the two once per library, at
/// file scope: `kinds_function` returns a `std::vector<vma::PolicyKind>`, `kind_function` one
/// `vma::PolicyKind`.
#define VMART_EXPORT_POLICIES(kinds_function)                                                  \
  extern "C" {                                                                                 \
  extern VMART_EXPORT const ::vma::PolicyLibrary vmart_policies;                               \
  constinit const ::vma::PolicyLibrary vmart_policies = ::vma::policy_library(kinds_function); \
  }
#define VMART_EXPORT_POLICY(kind_function) \
  VMART_EXPORT_POLICIES([] { return std::vector<::vma::PolicyKind>{kind_function()}; })
