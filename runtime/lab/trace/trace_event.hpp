#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>
#include <vma/telemetry.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vma {

enum class TraceEventKind : std::uint8_t {
  access = 1,
  allocation,
  free,
  tag,    ///< The object has this tag from now on.
  mark,   ///< A phase of the whole trace begins.
  place,  ///< Sets the initial place of a range of the object: costs nothing, and is not a move.
  task,   ///< Declares a task; its predecessors and then its accesses directly follow.
  after,  ///< The task starts when another one has ended. Directly follows the task or its `after`.
  hint,   ///< The program announces its use of a range, as by `vma::advise`; see `hint_of`.
};
constexpr unsigned trace_event_kinds = 9;
/// "access", "alloc", "free", "tag", "mark", "place", "task", "after", "hint".
std::string_view to_string(TraceEventKind kind) noexcept;

/// Index into `TraceTags`; 0 means no tag.
enum class TagId : std::uint16_t {};

/// An optional place in two bytes.
class TracePlace {
 public:
  static constexpr int ordinal_max = 9999;

  constexpr TracePlace() = default;
  /// Requires: the ordinal is between 0 and `ordinal_max`.
  explicit constexpr TracePlace(Place place)
      : code_(static_cast<std::uint16_t>(2 * place.ordinal + 1 +
                                         (place.kind == Place::Kind::host ? 1 : 0))) {}
  /// The inverse of `code`; nothing for an invalid number.
  static constexpr std::optional<TracePlace> of_code(std::uint64_t code) {
    if (code > 2 * ordinal_max + 2) return std::nullopt;
    TracePlace place;
    place.code_ = static_cast<std::uint16_t>(code);
    return place;
  }

  constexpr bool is_set() const noexcept { return code_ != 0; }
  constexpr bool is_gpu() const noexcept { return code_ % 2 == 1; }
  /// Requires: `is_set()`.
  constexpr Place place() const noexcept {
    return is_gpu() ? gpu((code_ - 1) / 2) : host((code_ - 2) / 2);
  }
  /// 0 if not set; odd for GPUs.
  constexpr std::uint16_t code() const noexcept { return code_; }

  friend constexpr bool operator==(TracePlace, TracePlace) = default;

 private:
  std::uint16_t code_ = 0;
};

/// One event of a trace. `kind` determines which members are used; the others keep their defaults.
///
/// A declared task starts at the latest of its `time` and the ends of all its predecessors. Then
/// all of its accesses begin together, and request their bytes evenly over its `duration`. It ends
/// when they have ended and the duration has passed; or it does the same again, `bytes` times in
/// all.
struct TraceEvent {
  Time time{0};  ///< Since the start of the trace. Tasks: of the earliest start.
  /// Numbered by the trace. Marks have none. `after`: the number of the predecessor, a task
  /// declared earlier. Tasks: the number of the request that they belong to, all of whose tasks
  /// happen on one device; 0: none.
  std::uint64_t object = 0;
  /// Allocations: the size. Accesses, places and hints: the size of the range. Tasks: how often the
  /// accesses and the duration are repeated, one after the other; at least 1.
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< Accesses, places, hints: the start of the range in the object.
  /// Accesses: the duration of the work that they belong to, without a memory bottleneck. The work
  /// requests the bytes evenly over this time. 0: as fast as memory allows. Tasks: the duration of
  /// one repetition; the accesses of a declared task have none of their own. Hints: the time from
  /// the hint to the use; `trace_time_unknown`: unknown.
  Time duration{0};
  /// Allocations: size of each chunk but the last. 0: unknown. Hints: the time from the hint to its
  /// end, in ns. 0: it has no end.
  std::uint64_t chunk_bytes = 0;
  /// Accesses of one task happen on one device. Tasks and `after`: the declared number, above 0.
  /// Allocations, frees and marks: they happen no earlier than the end of this declared task.
  /// Hints: this declared task gives it, when it starts or when it has ended. 0: none.
  std::uint32_t task = 0;
  float passes = 1;  ///< Accesses and hints: number of passes over the range.
  /// Accesses, hints and tasks: the GPU. Allocations and places: the initial place. If not set, the
  /// router chooses the GPU, and the policy the initial place. An access of a declared task has the
  /// task's; so has its hint that names none.
  TracePlace at;
  TagId tag{};  ///< Allocations and tasks; also the text of tag and mark events.
  TraceEventKind kind = TraceEventKind::access;
  UseKind use = UseKind::read;  ///< `read_write` transfers the bytes twice. Hints: see `hint_of`.
  bool at_end = false;          ///< Hints of a task: given when it has ended, not when it starts.

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};
static_assert(sizeof(TraceEvent) == 64, "one cache line");

constexpr std::uint64_t trace_object_bytes_max = std::uint64_t{1} << 50;
constexpr std::uint64_t trace_repeat_max = UINT32_MAX;
/// Of the predecessors of one task.
constexpr unsigned trace_after_max = 1u << 14;
constexpr Time trace_time_unknown = Time::max();
/// Whether a trace with this event is a closed loop, which readers of version 1 do not know.
constexpr bool needs_tasks(const TraceEvent& event) noexcept {
  return event.kind == TraceEventKind::task || event.kind == TraceEventKind::after ||
         (event.task != 0 && event.kind != TraceEventKind::access);
}
/// Whether an event that has the number of the task whose declaration is in progress is a part of
/// it: a predecessor, an access, or a hint that the task gives when it starts.
constexpr bool may_declare(const TraceEvent& event) noexcept {
  return event.kind == TraceEventKind::access || event.kind == TraceEventKind::after ||
         (event.kind == TraceEventKind::hint && !event.at_end);
}

/// What the event announces, for a use by `device`; its times are relative to when it is given. It
/// is `read_mostly` if its `use` is `read`.
Hint hint_of(const TraceEvent& event, Place device) noexcept;
/// A hint without an object, range and time. Its device is not set.
TraceEvent hint_event(const Hint& hint) noexcept;

/// Returns why the event is invalid in itself; null if it is valid.
const char* fault_of(const TraceEvent& event) noexcept;

/// The distinct texts of one trace's tags and marks. Not thread-safe.
class TraceTags {
 public:
  static constexpr std::size_t tags_max = 65'535;
  static constexpr std::size_t text_bytes_max = 256;

  TraceTags();
  // The keys of the index point into the texts: a copy would point into the original.
  TraceTags(const TraceTags&) = delete;
  TraceTags& operator=(const TraceTags&) = delete;

  /// Returns the same number for the same text; an empty text is no tag. Throws:
  /// Error{invalid_argument} if the text is too long, contains characters below 32, or exceeds
  /// `tags_max`.
  TagId intern(std::string_view text);
  /// Requires: `intern` returned this number, or it is 0.
  std::string_view text(TagId tag) const { return texts_[static_cast<std::size_t>(tag)]; }
  std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // A deque never moves its strings.
  std::unordered_map<std::string_view, TagId> index_;
};

}  // namespace vma
