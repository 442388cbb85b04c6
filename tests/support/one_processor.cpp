#include "support/one_processor.hpp"

namespace vma {

OneProcessor::OneProcessor() noexcept {
  if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  const int processor = sched_getcpu();
  if (processor < 0 || !CPU_ISSET(processor, &before_)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

OneProcessor::~OneProcessor() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace vma
