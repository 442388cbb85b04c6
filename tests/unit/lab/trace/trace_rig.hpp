#pragma once

#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_source.hpp"
#include "unit/recording/record_samples.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// An event with its tag as text, so that events of two traces can be compared.
struct ToldEvent {
  TraceEvent event;  // Its `tag` is 0.
  std::string tag;

  friend bool operator==(const ToldEvent&, const ToldEvent&) = default;
  friend void PrintTo(const ToldEvent& told, std::ostream* out);
};

/// Keeps all events.
class KeepingSink final : public TraceSink {
 public:
  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override { finished = true; }

  std::vector<ToldEvent> events;
  bool finished = false;
};

/// All events of a trace.
std::vector<ToldEvent> read_all(TraceSource& source);
std::vector<ToldEvent> read_all(const std::string& path);
/// Writes a trace of these events in the format of the path's extension.
void write_all(const std::string& path, const TraceHeader& header,
               const std::vector<ToldEvent>& events);

void write_text(const std::string& path, std::string_view text);
std::string text_of(const std::string& path);

/// The text of the Error that `body` throws; empty if it throws none.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Random events in order of time that `fault_of` accepts, with members over their whole range.
std::vector<ToldEvent> random_events(std::uint64_t seed, std::size_t count);

ToldEvent access(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes);
ToldEvent allocation(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes,
                     std::string tag = {});
ToldEvent free_of(std::int64_t time_ns, std::uint64_t object);
/// For the hint's device.
ToldEvent hint_of_object(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes,
                         const Hint& hint);
ToldEvent task_of(std::int64_t time_ns, std::uint32_t task, std::int64_t compute_ns = 0,
                  std::uint64_t repeat = 1);
ToldEvent after_of(std::int64_t time_ns, std::uint32_t task, std::uint32_t predecessor);

}  // namespace vma
