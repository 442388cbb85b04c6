#pragma once

#include "support/drivers/permitted_driver.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "support/stepped_executor.hpp"
#include "support/twin_kernels.hpp"
#include "twin/bug_driver.hpp"
#include "twin/submission_window.hpp"
#include "twin/twin_plan.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vma {

/// An array that moves and a twin that does not, of equal contents whenever nothing runs.
struct TwinArray {
  std::uint64_t* array = nullptr;
  std::uint64_t* twin = nullptr;
  std::uint64_t words = 0;

  std::uint64_t lines() const { return words / twin_line_words; }
};

/// What all in a play share: the machine, the runtime, the arrays, and what went wrong.
///
/// The program's own calls go to the machine, the runtime's through a `PermittedDriver` and what
/// the plan puts below it. Any thread.
class TwinWorld {
 public:
  /// `stepped` is null for threads of the operating system.
  TwinWorld(const TwinPlan& plan, SteppedExecutor* stepped);
  ~TwinWorld();

  const TwinPlan& plan() const { return plan_; }
  SimDriver& machine() { return machine_; }
  Runtime& runtime() { return *runtime_; }
  const TwinArray& array() const { return array_; }
  ContextHandle context(int gpu) const { return contexts_.at(static_cast<std::size_t>(gpu)); }
  const std::vector<Location>& places() const { return places_; }
  /// Another place than that of the array's first chunk.
  Location elsewhere(std::mt19937_64& random, const void* pointer);

  static constexpr std::uint64_t chunk_bytes = 8192;
  TwinArray make_array(std::uint64_t chunks, Location at);
  void free_array(const TwinArray& array);

  /// Makes calls that submit work, where no hold cuts them in two.
  void submit(const std::function<void()>& body);
  void add(BoundStream stream, int gpu, const TwinSpan& span, const TwinAdds& adds);
  /// Counts words that differ into `*different`, which is pinned.
  void compare(BoundStream stream, int gpu, const TwinArray& array, std::uint64_t* different);
  std::uint64_t* pinned_word();
  void nap(std::chrono::nanoseconds duration);
  /// As the runtime's calls name it.
  static Stream named(BoundStream stream);

  /// Events that streams wait for; they live as long as the world.
  void share_event(EventHandle event);
  EventHandle any_event(std::mt19937_64& random);

  /// Lets the plan's driver disturb, or not.
  void arm(bool armed) {
    if (plan_.arm) plan_.arm(armed);
  }
  /// Everybody is to come to an end.
  void finish() { finished_ = true; }
  bool finished() const { return finished_; }
  /// A thread whose failure is the play's.
  std::unique_ptr<Task> start(const std::string& name, std::function<void()> body);
  void fail(const std::string& problem);
  std::string problem() const;

  /// Holds the array against its twin, as the CPU sees them and as a kernel of each GPU does; fails
  /// if they differ. Returns the words that do. Requires: nothing runs.
  std::uint64_t compare_all(const TwinArray& array);
  /// Holds the books, ends the runtime and looks for what is left behind.
  void end();

 private:
  const TwinPlan& plan_;
  SimDriver machine_;
  std::vector<ContextHandle> contexts_;
  std::vector<KernelHandle> add_kernels_, compare_kernels_;
  std::vector<Location> places_;
  std::unique_ptr<Driver> wrapped_;
  std::unique_ptr<BugDriver> bugs_;
  std::unique_ptr<PermittedDriver> permitted_;
  Mutex submissions_;  // See SubmissionWindow.
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked_;
  TwinArray array_;
  std::atomic<bool> finished_{false};
  mutable Mutex mutex_;
  std::vector<EventHandle> events_ VMART_GUARDED_BY(mutex_);
  std::vector<std::uint64_t*> pinned_ VMART_GUARDED_BY(mutex_);
  std::string problem_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
