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
  tag,    ///< The object has this tag from now on.
  mark,   ///< A phase of the whole trace begins.
  place,  ///< Sets the initial place of a range of the object: costs nothing, and is not a move.
};
constexpr unsigned trace_event_kinds = 6;
/// "access", "alloc", "free", "tag", "mark", "place".
std::string_view to_string(TraceEventKind kind) noexcept;

/// Index into `TraceTags`; 0 means no tag.
enum class TagId : std::uint16_t {};

/// An optional location in two bytes.
class TracePlace {
 public:
  static constexpr int ordinal_max = 9999;

  constexpr TracePlace() = default;
  /// Requires: the ordinal is between 0 and `ordinal_max`.
  explicit constexpr TracePlace(Location location)
      : code_(static_cast<std::uint16_t>(2 * location.ordinal + 1 +
                                         (location.kind == Location::Kind::host ? 1 : 0))) {}
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
  constexpr Location location() const noexcept {
    return is_gpu() ? gpu((code_ - 1) / 2) : host((code_ - 2) / 2);
  }
  /// 0 if not set; odd for GPUs.
  constexpr std::uint16_t code() const noexcept { return code_; }

  friend constexpr bool operator==(TracePlace, TracePlace) = default;

 private:
  std::uint16_t code_ = 0;
};

/// One event of a trace. `kind` determines which members are used; the others keep their defaults.
struct TraceEvent {
  Time time{0};              ///< Since the start of the trace.
  std::uint64_t object = 0;  ///< Numbered by the trace. Marks have none.
  std::uint64_t bytes = 0;   ///< Allocations: the size. Accesses and places: the size of the range.
  std::uint64_t offset = 0;  ///< Accesses and places: the start of the range in the object.
  /// Accesses: the duration of the work that they belong to, without a memory bottleneck. The work
  /// requests the bytes evenly over this time. 0: as fast as memory allows.
  Time duration{0};
  std::uint64_t chunk_bytes = 0;  ///< Allocations: size of each chunk but the last. 0: unknown.
  std::uint32_t task = 0;         ///< Accesses of one task happen on one device. 0: none.
  float passes = 1;               ///< Accesses: number of passes over the range.
  /// Accesses: the GPU. Allocations and places: the initial place. If not set, the router chooses
  /// the GPU, and the policy the initial place.
  TracePlace at;
  TagId tag{};  ///< Allocations; also the text of tag and mark events.
  TraceEventKind kind = TraceEventKind::access;
  UseKind use = UseKind::read;  ///< `read_write` transfers the bytes twice.

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};
static_assert(sizeof(TraceEvent) == 64, "one cache line");

constexpr std::uint64_t trace_object_bytes_max = std::uint64_t{1} << 50;

/// Returns why the event is invalid in itself; null if it is valid.
const char* fault_of(const TraceEvent& event) noexcept;

}  // namespace vma
