#include "base/one_processor.hpp"

#include <unistd.h>

#include <atomic>

namespace vma {
namespace {

std::atomic<unsigned> turns{0};

/// The one in place `number` of the set, counted around. Requires: the set is not empty.
int processor_of(const cpu_set_t& set, unsigned number) noexcept {
  unsigned left = number % static_cast<unsigned>(CPU_COUNT(&set));
  for (int processor = 0;; ++processor) {
    if (CPU_ISSET(processor, &set) && left-- == 0) return processor;
  }
}

}  // namespace

OneProcessor::OneProcessor() noexcept {
  if (sched_getaffinity(0, sizeof before_, &before_) != 0 || CPU_COUNT(&before_) < 2) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor_of(before_, static_cast<unsigned>(getpid()) + turns.fetch_add(1)), &one);
  bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

OneProcessor::~OneProcessor() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace vma
