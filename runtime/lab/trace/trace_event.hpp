#pragma once

#include <vma/location.hpp>
#include <vma/snapshot.hpp>
#include <vma/telemetry.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace vma {

enum class TraceEventKind : std::uint8_t {
  access = 1,
  allocation,
  free,
  tag,    ///< The object has a different tag from here on.
  mark,   ///< Of the whole trace: a phase begins.
  place,  ///< A range of the object is there, at no cost: its initial place, not a move.
};
constexpr unsigned trace_event_kinds = 6;
/// "access", "alloc", "free", "tag", "mark", "place".
std::string_view to_string(TraceEventKind kind) noexcept;

/// Index into `TraceTags`; 0 means no tag.
enum class TagId : std::uint16_t {};

/// A location in two bytes, or none.
class TracePlace {
 public:
  static constexpr int ordinal_max = 9999;

  constexpr TracePlace() = default;
  /// Requires: its ordinal is from 0 to `ordinal_max`.
  explicit constexpr TracePlace(Location location)
      : code_(static_cast<std::uint16_t>(2 * location.ordinal + 1 +
                                         (location.kind == Location::Kind::host ? 1 : 0))) {}
  /// The place for a result of `code`; none for other numbers.
  static constexpr std::optional<TracePlace> of_code(std::uint64_t code) {
    if (code > 2 * ordinal_max + 2) return std::nullopt;
    TracePlace place;
    place.code_ = static_cast<std::uint16_t>(code);
    return place;
  }

  constexpr bool is_set() const noexcept { return code_ != 0; }
  constexpr bool is_gpu() const noexcept { return code_ % 2 == 1; }
  /// Requires: `is_set()`.
  constexpr Location location() const noexcept {
    return is_gpu() ? gpu((code_ - 1) / 2) : host((code_ - 2) / 2);
  }
  /// 0: none. GPUs are odd.
  constexpr std::uint16_t code() const noexcept { return code_; }

  friend constexpr bool operator==(TracePlace, TracePlace) = default;

 private:
  std::uint16_t code_ = 0;
};

/// One event of a trace. `kind` determines which members are used; the others keep their defaults.
struct TraceEvent {
  Time time{0};              ///< Since the trace's begin.
  std::uint64_t object = 0;  ///< The trace's own number. A mark has none.
  std::uint64_t bytes = 0;   ///< An allocation's size; the range of an access or place.
  std::uint64_t offset = 0;  ///< An access or place: where in the object its range begins.
  /// An access: the duration of the work that it belongs to if memory were no bottleneck. The bytes
  /// are requested evenly over it. 0: as fast as memory allows.
  Time duration{0};
  std::uint64_t chunk_bytes = 0;  ///< An allocation: of each chunk but the last. 0: unknown.
  std::uint32_t task = 0;         ///< Accesses of one task happen at one device. 0: none.
  float passes = 1;               ///< An access: the number of passes over the range.
  /// An access: the GPU. An allocation or place: its initial place. None: the router chooses the
  /// former, the policy the latter.
  TracePlace at;
  TagId tag{};  ///< Of an allocation; the text of a tag and of a mark.
  TraceEventKind kind = TraceEventKind::access;
  UseKind use = UseKind::read;  ///< `read_write` transfers the bytes twice.

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};
static_assert(sizeof(TraceEvent) == 64, "one cache line");

constexpr std::uint64_t trace_object_bytes_max = std::uint64_t{1} << 50;

/// Why the event is invalid by itself; null if it is valid.
const char* fault_of(const TraceEvent& event) noexcept;

}  // namespace vma
