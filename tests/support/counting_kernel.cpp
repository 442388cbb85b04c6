#include "support/counting_kernel.hpp"

#include "base/clock.hpp"
#include "support/test_kernels.hpp"

#include <algorithm>
#include <atomic>

namespace vma {

CountingKernel::CountingKernel(Driver& driver, ContextHandle context,
                               std::span<std::uint64_t> words)
    : driver_(driver),
      context_(context),
      stream_(driver.create_stream(context, StreamKind::non_blocking)),
      told_(static_cast<std::uint64_t*>(driver.allocate_pinned(context, 2 * sizeof(*told_)))),
      kernel_(driver.load_kernel(context, beat_kernel())) {
  std::fill_n(told_, 2, 0);
  driver.launch(stream_, kernel_, {{1, 1, 1}, {256, 1, 1}},
                KernelArguments::of(told_, words.data(), std::uint64_t{words.size()}, told_ + 1));
}

CountingKernel::~CountingKernel() {
  end();
  driver_.unload_kernel(kernel_);
  driver_.free_pinned(context_, told_);
  driver_.destroy_stream(stream_);
}

std::uint64_t CountingKernel::beats() const {
  return std::atomic_ref(told_[1]).load();
}

bool CountingKernel::goes_on() const {
  SteadyClock clock;
  const std::uint64_t before = beats();
  return poll_until(clock, clock.now() + std::chrono::seconds(20),
                    [&] { return beats() != before; });
}

std::uint64_t CountingKernel::end() {
  std::atomic_ref(told_[0]).store(1);
  driver_.wait_stream(stream_, never);
  return beats();
}

}  // namespace vma
