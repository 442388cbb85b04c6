#pragma once

#include <vma/export.hpp>
#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
};

/// What a policy wants, in order. The planner checks it: a plan can be useless, not harmful.
class Plan {
 public:
  void move(ChunkId chunk, PlaceId to, double value, std::string reason) {
    moves_.push_back({chunk, to, value, std::move(reason), false});
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
  Time took{0}, stall{0};
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
  std::unique_ptr<Policy> (*make)(const PolicyValues& values) = nullptr;
};

}  // namespace vma::inline v1
