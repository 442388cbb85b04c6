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

/// A wish to have a chunk elsewhere.
struct Move {
  ChunkId chunk{};
  PlaceId to{};
  /// Seconds of access that it is expected to save, less those that it costs. Of moves that compete
  /// for room or for a route, the one with the most value a byte goes first.
  double value = 0;
  /// For people, in the decision log: "gpu(2) uses it 4.1 GB/s". Never empty.
  std::string reason;
  /// It only makes room for others: it has no value of its own, and is not made for something
  /// colder.
  bool victim = false;
  /// Host memory that it leaves for HBM stays behind as a clean copy, where the chunk is read-only:
  /// the way back there is free then. See `MigrateOptions::keep_clean_copy`.
  bool keep_copy = false;
};

/// What a policy wants, in order. The planner checks it: a plan can be useless, not harmful.
class Plan {
 public:
  void move(ChunkId chunk, PlaceId to, double value, std::string reason, bool keep_copy = false) {
    moves_.push_back({chunk, to, value, std::move(reason), false, keep_copy});
  }
  void evict(ChunkId chunk, PlaceId to, std::string reason) {
    moves_.push_back({chunk, to, 0, std::move(reason), true});
  }
  std::span<const Move> moves() const noexcept { return moves_; }
  bool empty() const noexcept { return moves_.empty(); }
  void clear() noexcept { moves_.clear(); }

 private:
  std::vector<Move> moves_;
};

/// Memory that a program asks for without saying where.
struct AllocRequest {
  std::uint64_t bytes = 0;        ///< Of all its chunks.
  std::uint64_t chunk_bytes = 0;  ///< Of each but the last, which may be shorter.
  PlaceId device{};               ///< The GPU of the caller's current context.
  std::string_view tag;
};

/// What GPUs did with one chunk since it was last looked at, a millisecond or so; or a hint.
struct UseEvent {
  ChunkId chunk{};
  PlaceId device{};
  double bytes_read = 0, bytes_written = 0;
  const Hint* hint = nullptr;  ///< Not null: nothing was used, the program announced something.
  double bytes() const { return bytes_read + bytes_written; }
};

/// Room is wanted at a place.
struct Pressure {
  PlaceId at{};
  std::uint64_t bytes = 0;  ///< That must come free.
  PlaceId device{};         ///< The GPU that will use what comes; `at` if nobody knows.
};

/// How a move went that the policy planned.
struct MoveResult {
  ChunkId chunk{};
  PlaceId from{}, to{};
  bool moved = false;
  Time took{0};   ///< By itself: no time in which programs ran on before they stood.
  Time stall{0};  ///< The longest of its migration.
};

/// Decides what lies where. Pure: it acts by what it returns only, keeps its state in itself, and
/// takes its chance from its parameters' seed. One thread at a time calls it, not always the same
/// one. An exception drops its plan; so does a call that takes longer than the scheduler's limit.
class VMART_EXPORT Policy {
 public:
  virtual ~Policy();

  /// Chooses the place of each chunk of the request: `chunks` comes filled with the fastest places
  /// of the device that have room.
  virtual void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                        std::span<PlaceId> chunks);
  /// Called once a chunk and GPU that used it, about a millisecond after the use.
  virtual void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan);
  /// Victims, best first, in a plan that makes `pressure.bytes` free. What is too little is
  /// completed by the planner: coldest first, to the fastest place with room.
  virtual void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan);
  virtual void on_tick(const Snapshot& snapshot, Plan& plan);
  virtual void on_result(const MoveResult& result, const Snapshot& snapshot);
  /// The chunk is gone, or its number is about to be another's.
  virtual void on_gone(ChunkId chunk);
};

/// One parameter of a policy.
struct PolicyParameter {
  enum class Type { number, duration, size, count, flag };
  std::string name;
  Type type = Type::number;
  double otherwise = 0;  ///< Durations in seconds, sizes in bytes.
  double least = 0, most = 0;
  std::string meaning;
};

/// Values of all parameters of a policy, by name; in the units of `PolicyParameter`.
class VMART_EXPORT PolicyValues {
 public:
  void set(const std::string& name, double value) { values_[name] = value; }
  /// Requires: the policy has such a parameter.
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
  std::string source;  ///< The paper, book or kernel that it comes from.
  std::vector<PolicyParameter> parameters;
  std::function<std::unique_ptr<Policy>(const PolicyValues& values)> make;
};

/// Binary interface of policies: a library is taken only if it was built with the like. Before 1.0
/// each minor version may break it.
inline constexpr char policy_interface_version[16] = "0.1";
inline constexpr std::uint32_t policy_api_version = 1;
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

/// Sizes and alignments of all that goes to a policy and comes from it, in one number.
constexpr std::uint64_t policy_layout() {
  const std::uint64_t parts[] = {sizeof(ChunkRow),
                                 sizeof(Heat),
                                 sizeof(PlaceState),
                                 sizeof(MachineCosts),
                                 sizeof(Snapshot),
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
                                 alignof(ChunkRow),
                                 alignof(UseEvent),
                                 alignof(std::max_align_t)};
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a.
  for (const std::uint64_t part : parts) sum = (sum ^ part) * 1099511628211u;
  return sum;
}

/// What a library with a policy shows, as `vmart_policy_v1`; see `VMART_EXPORT_POLICY`. Everything
/// before `kind` is plain bytes, so that it can be checked before anything is called.
struct PolicyLibraryV1 {
  std::uint64_t size = sizeof(PolicyLibraryV1);
  std::uint32_t api_version = policy_api_version;
  std::uint32_t alignment = alignof(std::max_align_t);
  std::uint64_t layout = policy_layout();
  char version[16] = {};
  char compiler[64] = {};
  PolicyKind (*kind)() = nullptr;
};

constexpr PolicyLibraryV1 policy_library(PolicyKind (*kind)()) {
  PolicyLibraryV1 library;
  for (std::size_t i = 0; i < sizeof library.version; ++i)
    library.version[i] = policy_interface_version[i];
  for (std::size_t i = 0; i < sizeof library.compiler; ++i)
    library.compiler[i] = policy_compiler[i];
  library.kind = kind;
  return library;
}

}  // namespace vma::inline v1

/// Makes a shared object a policy: `VMART_POLICY=/path/to/it.so:parameter=value`. Once a library,
/// at file scope; `kind_function` is a `vma::PolicyKind()`.
#define VMART_EXPORT_POLICY(kind_function)                                                       \
  extern "C" {                                                                                   \
  extern VMART_EXPORT const ::vma::PolicyLibraryV1 vmart_policy_v1;                              \
  constinit const ::vma::PolicyLibraryV1 vmart_policy_v1 = ::vma::policy_library(kind_function); \
  }
