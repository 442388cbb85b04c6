#pragma once

#include "lab/trace/trace_event.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// A JSON number: unsigned 64-bit integers are exact.
struct JsonNumber {
  double real = 0;
  std::optional<std::uint64_t> whole;  ///< Not set if negative, a fraction, or too large.
};

/// Collects the members of one line's JSON object into an event. Independent of the parser. Every
/// function returns the fault, or null.
class TraceLineFields {
 public:
  void clear();
  /// The key of the next value.
  const char* key(std::string_view name);
  const char* number(const JsonNumber& number);
  const char* text(std::string_view text);
  /// The elements follow, as numbers.
  const char* list();
  const char* list_end();
  /// Call after the last member. Leaves `tag` for the caller to intern.
  const char* finish(TraceEvent& event);

  /// The key that a fault refers to: the last one, or the missing one.
  std::string_view name() const noexcept { return name_; }
  std::string_view tag() const noexcept { return tag_; }
  /// The predecessors of a task.
  std::span<const std::uint64_t> after() const noexcept { return after_; }

  enum class Field : std::uint8_t {
    kind,
    time_ns,
    object,
    bytes,
    offset,
    duration_ns,
    chunk_bytes,
    task,
    passes,
    device,
    home,
    use,
    tag,
    after,
    after_task,
    compute_ns,
    repeat,
    request,
    next_use_ns,
    until_ns,
  };

 private:
  static constexpr unsigned bit(Field field) { return 1u << static_cast<unsigned>(field); }
  const char* set_kind(std::string_view text);
  const char* set_use(std::string_view text);
  const char* set_home(std::string_view text);
  const char* require(unsigned needed, unsigned allowed);
  const char* require_members();
  const char* set_task(const JsonNumber& number);
  const char* add_after(const JsonNumber& number);

  TraceEvent event_;
  Field field_{};
  unsigned seen_ = 0;  // A bit per field.
  std::string_view name_;
  std::string unknown_;  // A key that no event has; `name_` refers to it.
  std::string tag_;
  std::vector<std::uint64_t> after_;
  bool in_list_ = false;
  std::uint64_t device_ = 0;
  TracePlace home_;
};

}  // namespace vma
