#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/array.hpp>

#include <cstdint>

namespace vma {

/// Reads a runtime's events in order, about as fast as a person can read.
class EventFollower {
 public:
  /// Starts after the event `since`.
  EventFollower(ControlClient& client, std::uint64_t since) : client_(client), since_(since) {}

  /// Returns new events, at most one page. Reports lost events on standard error.
  boost::json::array next();
  /// Blocks: until it makes sense to ask again.
  void wait();

 private:
  ControlClient& client_;
  std::uint64_t since_;
  bool more_ = false;
};

struct EventsCommand {
  std::uint64_t since = 0;  ///< Only events with a higher number.
  bool follow = false, json = false;
};

/// Prints the events that the runtime remembers, and new ones forever if it follows. JSON output is
/// one object, or one object per line if it follows. Returns 0.
int run_events(const ControlChoice& choice, const EventsCommand& command);

}  // namespace vma
