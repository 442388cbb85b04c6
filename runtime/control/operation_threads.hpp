#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "control/control_target.hpp"
#include "control/event_feed.hpp"

#include <vma/place.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Operations that a peer has started and that block, each on a thread of its own, with the event
/// that ends it. One thread uses it, that of the control socket.
class OperationThreads {
 public:
  static constexpr std::size_t threads_max = 4;

  OperationThreads(Executor& executor, Clock& clock, std::shared_ptr<EventFeed> feed);
  /// Stops.
  ~OperationThreads();

  /// Starts an operation about a place, and returns its number. `body` fills in the event and
  /// returns whether the operation succeeded; what it throws becomes the text of the event. Throws:
  /// Error{busy} while `threads_max` of them are running.
  std::uint64_t start(const std::string& name, Place at, std::function<bool(ControlEvent&)> body);
  /// Waits for all of them. Requires: something has ended what they wait for. Idempotent.
  void stop() noexcept;

 private:
  struct Thread {
    std::unique_ptr<Task> task;
    std::atomic<bool> ended{false};
  };

  void perform(std::uint64_t operation, Place at,
               const std::function<bool(ControlEvent&)>& body) noexcept;

  Executor& executor_;
  Clock& clock_;
  const std::shared_ptr<EventFeed> feed_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace vma
