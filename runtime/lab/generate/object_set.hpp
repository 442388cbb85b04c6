#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace vma {

/// Creates the events of a generator for objects of one size and tag, numbered from `first`.
class ObjectSet {
 public:
  ObjectSet(EventOrder& order, std::uint64_t first, std::uint64_t count, std::uint64_t bytes,
            std::string_view tag)
      : order_(&order), first_(first), count_(count), bytes_(bytes), tag_(tag) {}

  std::uint64_t count() const noexcept { return count_; }
  void allocate_all(Time time) const {
    for (std::uint64_t object = 0; object < count_; ++object) {
      TraceEvent event = of(TraceEventKind::allocation, time, object);
      event.bytes = bytes_;
      event.tag = order_->intern(tag_);
      order_->add(event);
    }
  }
  void free_all(Time time) const {
    for (std::uint64_t object = 0; object < count_; ++object) {
      order_->add(of(TraceEventKind::free, time, object));
    }
  }
  /// Returns an access to the whole object; the caller adds it.
  TraceEvent access(Time time, std::uint64_t object) const {
    TraceEvent event = of(TraceEventKind::access, time, object);
    event.bytes = bytes_;
    return event;
  }

 private:
  TraceEvent of(TraceEventKind kind, Time time, std::uint64_t object) const {
    TraceEvent event;
    event.kind = kind;
    event.time = time;
    event.object = first_ + object;
    return event;
  }

  EventOrder* order_;
  std::uint64_t first_, count_, bytes_;
  std::string_view tag_;
};

/// Adds a mark at this time.
inline void add_mark(EventOrder& order, Time time, std::string_view text) {
  TraceEvent event;
  event.kind = TraceEventKind::mark;
  event.time = time;
  event.tag = order.intern(text);
  order.add(event);
}

/// Converts a parameter in seconds.
inline Time seconds_of(double seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

inline constexpr TraceParameter gpus_parameter{"gpus", 8, 1, 9999, "GPUs that use the objects"};
inline constexpr TraceParameter object_bytes_parameter{"object_bytes", 64 << 20, 1, 1e13,
                                                       "size of an object"};
inline constexpr TraceParameter length_parameter{"length_s", 60, 1e-6, 1e6, "length of the trace",
                                                 false};

}  // namespace vma
