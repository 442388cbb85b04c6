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

/// An array that moves and a twin that does not; their contents are equal whenever nothing runs.
struct TwinArray {
  std::uint64_t* array = nullptr;
  std::uint64_t* twin = nullptr;
  std::uint64_t words = 0;

  std::uint64_t lines() const { return words / twin_line_words; }
};

/// What all threads of a play share: the machine, the runtime, the arrays, and the failures.
///
/// The program's own calls go to the machine; the runtime's go through a `PermittedDriver` and what
/// the plan puts below it. Any thread.
class TwinWorld {
 public:
  /// `stepped` is null for operating system threads.
  TwinWorld(const TwinPlan& plan, SteppedExecutor* stepped);
  ~TwinWorld();

  const TwinPlan& plan() const { return plan_; }
  SimDriver& machine() { return machine_; }
  Runtime& runtime() { return *runtime_; }
  const TwinArray& array() const { return array_; }
  /// A second allocation, whose moves may share gates with those of the first.
  const TwinArray& beside() const { return beside_; }
  const TwinArray& any_array(std::mt19937_64& random) const {
    return below(random, 2) == 0 ? array_ : beside_;
  }
  ContextHandle context(int gpu) const { return contexts_.at(static_cast<std::size_t>(gpu)); }
  const std::vector<Place>& places() const { return places_; }
  /// A place other than that of the array's first chunk.
  Place elsewhere(std::mt19937_64& random, const void* pointer);

  static constexpr std::uint64_t chunk_bytes = 8192;
  TwinArray make_array(std::uint64_t chunks, Place at);
  void free_array(const TwinArray& array);

  /// Runs calls that submit work, such that no hold comes in between.
  void submit(const std::function<void()>& body);
  void add(BoundStream stream, int gpu, const TwinSpan& span, const TwinAdds& adds);
  /// Adds the number of differing words to `*different`, which is pinned.
  void compare(BoundStream stream, int gpu, const TwinArray& array, std::uint64_t* different);
  std::uint64_t* pinned_word();
  void nap(std::chrono::nanoseconds duration);
  /// The handle as the runtime's calls take it.
  static Stream named(BoundStream stream);

  /// Events that streams wait for; they live as long as the world.
  void share_event(EventHandle event);
  EventHandle any_event(std::mt19937_64& random);

  /// Arms or disarms the plan's driver.
  void arm(bool armed) {
    if (plan_.arm) plan_.arm(armed);
  }
  /// Tells all threads to end.
  void finish() { finished_ = true; }
  bool finished() const { return finished_; }
  /// Starts a thread whose failure fails the play.
  std::unique_ptr<Task> start(const std::string& name, std::function<void()> body);
  void fail(const std::string& problem);
  std::string problem() const;

  /// Compares the array with its twin, as seen by the CPU and by a kernel of each GPU; fails if
  /// they differ. Returns the number of differing words. Requires: nothing runs.
  std::uint64_t compare_all(const TwinArray& array);
  /// Checks the books, ends the runtime and looks for leaks.
  void end();

 private:
  const TwinPlan& plan_;
  SimDriver machine_;
  std::vector<ContextHandle> contexts_;
  std::vector<KernelHandle> add_kernels_, compare_kernels_;
  std::vector<Place> places_;
  std::unique_ptr<Driver> wrapped_;
  std::unique_ptr<BugDriver> bugs_;
  std::unique_ptr<PermittedDriver> permitted_;
  Mutex submissions_;  // See SubmissionWindow.
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked_, kept_;
  TwinArray array_, beside_;
  std::atomic<bool> finished_{false};
  mutable Mutex mutex_;
  std::vector<EventHandle> events_ VMART_GUARDED_BY(mutex_);
  std::vector<std::uint64_t*> pinned_ VMART_GUARDED_BY(mutex_);
  std::string problem_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
