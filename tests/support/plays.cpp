#include "support/plays.hpp"

#include "base/mutex.hpp"

namespace vma {

std::uint64_t run_play(bool threaded, const SteppedOptions& options,
                       const std::function<void(SteppedExecutor*)>& body) {
  if (threaded) {
    body(nullptr);
    return 0;
  }
  SteppedExecutor executor(options);
  executor.run([&] { body(&executor); });
  return executor.interleaving_hash();
}

void nap(Clock& clock, TimePoint duration) {
  Mutex mutex;
  Condition nothing;
  MutexLock lock(mutex);
  nothing.wait_until(lock, clock, clock.now() + duration, [] { return false; });
}

}  // namespace vma
