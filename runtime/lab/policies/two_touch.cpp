#include "lab/policies/lab_policies.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

namespace vma::inline v1 {
namespace {

/// Bytes that each GPU used of each chunk in one time window. Unused chunks cost nothing.
class UseWindow {
 public:
  void add(ChunkId chunk, PlaceId device, double bytes, std::size_t gpus);
  void forget(ChunkId chunk);
  /// Begins the next window.
  void clear();

  /// In the order of their first use. Removed chunks have no bytes.
  std::span<const ChunkId> chunks() const { return chunks_; }
  /// By GPU. Requires: `i` is below the number of `chunks`.
  std::span<const double> bytes(std::size_t i) const {
    return std::span(bytes_).subspan(i * gpus_, gpus_);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  std::size_t gpus_ = 0;
  std::vector<ChunkId> chunks_;
  std::vector<double> bytes_;         // [place in chunks_][gpu]
  std::vector<std::uint32_t> entry_;  // By chunk: its index in chunks_.
};

void UseWindow::add(ChunkId chunk, PlaceId device, double bytes, std::size_t gpus) {
  gpus_ = gpus;
  if (index(chunk) >= entry_.size()) entry_.resize(index(chunk) * 2 + 1, none);
  std::uint32_t& entry = entry_[index(chunk)];
  if (entry == none) {
    entry = static_cast<std::uint32_t>(chunks_.size());
    chunks_.push_back(chunk);
    bytes_.resize(bytes_.size() + gpus_);
  }
  bytes_[entry * gpus_ + index(device)] += bytes;
}

void UseWindow::forget(ChunkId chunk) {
  if (index(chunk) >= entry_.size() || entry_[index(chunk)] == none) return;
  std::ranges::fill(std::span(bytes_).subspan(entry_[index(chunk)] * gpus_, gpus_), 0.0);
}

void UseWindow::clear() {
  for (const ChunkId chunk : chunks_) entry_[index(chunk)] = none;
  chunks_.clear();
  bytes_.clear();
}

constexpr double active_node_fraction = 3;
constexpr std::size_t looks_max = 12288;  // Per call: a few milliseconds.

/// State of the last window in which a chunk was used.
struct LastWindow {
  double top_bytes = 0, source_bytes = 0;
  PlaceId top{}, source{};  // Its top user, and its place.
  bool used = false, shared = false;
};

/// `two_touch`: a chunk goes to the GPU that used it most in two consecutive windows.
///
/// Source: NUMA balancing of Linux 6.3, `should_numa_migrate_memory` in kernel/sched/fair.c. There
/// a page is sampled by one fault per scan, here uses are counted; a scan period becomes a window,
/// a fault's node becomes the GPU that used the chunk most in the window (of equals the one where
/// it is, then the last window's, then the lowest number). At the end of a window, for each chunk
/// that was used in it:
/// 1. Two-stage filter: this window's top GPU is also that of the last window in which the chunk
///    was used. (As with faults, windows without use do not interrupt: the last one is remembered.)
/// 2. Private, no other GPU used it in either window: move.
/// 3. The target is much more active: over both windows it used more than 3 times the bytes
///    (`ACTIVE_NODE_FRACTION`) that the GPU where the chunk is did: move. This always holds for
///    host memory.
/// 4. Otherwise it is shared, and memory follows the load with a hysteresis of 3/4 (`ratio`): move
///    if cpu(target) / mem(target) * ratio > cpu(source) / mem(source), where cpu(g) is GPU g's
///    demand on all memory, and mem(g) the demand of all GPUs on g's HBM, in bytes per second.
/// Moves go to HBM with room, as the kernel's do (`migrate_balanced_pgdat`). Not adopted: that
/// first faults of a young task need no second one (programs here do not say that they are young),
/// and the adaptive scan period. The rule does not weigh costs; a move's value says what it is
/// expected to save.
class TwoTouch final : public Policy {
 public:
  explicit TwoTouch(const PolicyValues& values)
      : length_(values.duration("window")), ratio_(values["ratio"]) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    end_window(snapshot, plan);
    if (use.hint != nullptr || use.bytes() <= 0) return;
    window_.add(use.chunk, use.device, use.bytes(), snapshot.costs().gpus());
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    look(snapshot, looks_max, plan);
    end_window(snapshot, plan);
  }
  void on_gone(ChunkId chunk) override {
    window_.forget(chunk);
    ended_.forget(chunk);
    if (index(chunk) < last_.size()) last_[index(chunk)] = LastWindow{};
  }

 private:
  void end_window(const Snapshot& snapshot, Plan& plan);
  void look(const Snapshot& snapshot, std::size_t looks, Plan& plan);
  void look_at(std::size_t entry, const Snapshot& snapshot, RoomForChunks& room, Plan& plan);
  std::optional<std::string> why(const LastWindow& before, const LastWindow& now,
                                 const Snapshot& snapshot) const;

  const Time length_;
  const double ratio_;
  Time began_{0};
  bool begun_ = false;
  UseWindow window_, ended_;      // The counting one, and the one before.
  std::size_t looked_at_ = 0;     // Of the ended one.
  std::vector<LastWindow> last_;  // By chunk.
};

/// Finds the top user of a chunk. `source`: its place; `last`: the window before.
LastWindow sum_up(std::span<const double> bytes, PlaceId source, const LastWindow& last) {
  LastWindow now;
  now.source = source;
  std::size_t users = 0;
  const auto preferred = [&](PlaceId device) {
    return device == source ? 2 : last.used && device == last.top ? 1 : 0;
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] <= 0) continue;
    ++users;
    const PlaceId device{static_cast<std::uint8_t>(i)};
    const bool more = bytes[i] > now.top_bytes;
    const bool equal = !more && bytes[i] >= now.top_bytes;
    if (more || (equal && preferred(device) > preferred(now.top))) {
      now.top = device;
      now.top_bytes = bytes[i];
    }
  }
  now.used = users > 0;
  now.shared = users > 1;
  now.source_bytes = index(source) < bytes.size() ? bytes[index(source)] : 0;
  return now;
}

/// At most once per window, in the first call after its end. Its uses are examined then and at the
/// next ticks, a bounded number per call.
void TwoTouch::end_window(const Snapshot& snapshot, Plan& plan) {
  if (!begun_) {
    begun_ = true;
    began_ = snapshot.now();
  }
  if (snapshot.now() - began_ < length_) return;
  began_ = snapshot.now();
  look(snapshot, ended_.chunks().size(), plan);
  ended_.clear();
  std::swap(window_, ended_);
  looked_at_ = 0;
  look(snapshot, looks_max, plan);
}

void TwoTouch::look(const Snapshot& snapshot, std::size_t looks, Plan& plan) {
  if (looked_at_ == ended_.chunks().size()) return;
  RoomForChunks room(snapshot);
  last_.resize(std::max(last_.size(), snapshot.chunks().size()));
  for (; looks > 0 && looked_at_ < ended_.chunks().size(); --looks) {
    look_at(looked_at_++, snapshot, room, plan);
  }
}

void TwoTouch::look_at(std::size_t entry, const Snapshot& snapshot, RoomForChunks& room,
                       Plan& plan) {
  const ChunkId chunk = ended_.chunks()[entry];
  const ChunkRow& row = snapshot.chunk(chunk);
  LastWindow& last = last_[index(chunk)];
  const LastWindow now = sum_up(ended_.bytes(entry), row.at, last);
  if (!now.used) return;
  const LastWindow before = last;
  last = now;
  if (!before.used || before.top != now.top || row.at == now.top) return;
  if (!may_move(row) || !room.fits(now.top, row.bytes)) return;
  if (!can_lie(snapshot, chunk, now.top)) return;
  std::optional<std::string> reason = why(before, now, snapshot);
  if (!reason) return;
  room.take(now.top, row.bytes);
  plan.move(chunk, now.top, expected_saving(snapshot, chunk, now.top), std::move(*reason));
}

double asked_by(const Snapshot& snapshot, PlaceId device) {
  double sum = 0;
  for (std::size_t at = 0; at < snapshot.places().size(); ++at) {
    sum += snapshot.demand(device, PlaceId{static_cast<std::uint8_t>(at)});
  }
  return sum;
}

double asked_of(const Snapshot& snapshot, PlaceId at) {
  double sum = 0;
  for (std::size_t device = 0; device < snapshot.costs().gpus(); ++device) {
    sum += snapshot.demand(PlaceId{static_cast<std::uint8_t>(device)}, at);
  }
  return sum;
}

/// Steps 2 to 4 of the rule; none if none of them says to move.
std::optional<std::string> TwoTouch::why(const LastWindow& before, const LastWindow& now,
                                         const Snapshot& snapshot) const {
  const std::string top = name_of(snapshot, now.top);
  char text[160];
  const double bytes = before.top_bytes + now.top_bytes;
  if (!before.shared && !now.shared) {
    std::snprintf(text, sizeof text, "%s alone used it in two windows, %.1f MB", top.c_str(),
                  bytes / 1e6);
    return text;
  }
  // What its home used of it while it was elsewhere says nothing about its home.
  const double home_bytes =
      now.source_bytes + (before.source == now.source ? before.source_bytes : 0);
  if (bytes > active_node_fraction * home_bytes) {
    std::snprintf(text, sizeof text, "%s used %.1f MB of it in two windows, its home %.1f MB",
                  top.c_str(), bytes / 1e6, home_bytes / 1e6);
    return text;
  }
  const double to_cpu = asked_by(snapshot, now.top), to_memory = asked_of(snapshot, now.top);
  const double from_cpu = asked_by(snapshot, now.source),
               from_memory = asked_of(snapshot, now.source);
  if (to_cpu * from_memory * ratio_ <= from_cpu * to_memory) return std::nullopt;
  std::snprintf(text, sizeof text, "%s asks %s and its memory gives %s, its home %s and %s",
                top.c_str(), rate_text(to_cpu).c_str(), rate_text(to_memory).c_str(),
                rate_text(from_cpu).c_str(), rate_text(from_memory).c_str());
  return text;
}

}  // namespace

PolicyKind two_touch_kind() {
  using enum PolicyParameter::Type;
  return {"two_touch",
          "NUMA balancing of Linux 6.3, should_numa_migrate_memory",
          {{"window", duration, 0.1, 0.001, 60, "window for counting uses; two in a row decide"},
           {"ratio", number, 0.75, 0.01, 1,
            "shared chunks move if the target's load by memory, times this, beats the source's"}},
          [](const PolicyValues& values) {
            return std::unique_ptr<Policy>(std::make_unique<TwoTouch>(values));
          }};
}

}  // namespace vma::inline v1
