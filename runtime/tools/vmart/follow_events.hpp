#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/array.hpp>

#include <cstdint>

namespace vma {

/// Reads a runtime's events in order, no faster than a person reads.
class EventFollower {
 public:
  /// Begins after the event `since`.
  EventFollower(ControlClient& client, std::uint64_t since) : client_(client), since_(since) {}

  /// New events, at most one page. Reports lost ones on standard error.
  boost::json::array next();
  /// Blocks: until it is worth asking again.
  void wait();

 private:
  ControlClient& client_;
  std::uint64_t since_;
  bool more_ = false;
};

/// Prints the events that the runtime remembers; continues for ever if `follow`. As JSON they are
/// one object, or if `follow` one object per line. Returns 0.
int run_events(const ControlChoice& choice, bool follow, bool as_json);

}  // namespace vma
