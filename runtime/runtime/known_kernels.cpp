#include "runtime/known_kernels.hpp"

#include <utility>

namespace vma {
namespace {

std::atomic<std::uint64_t> last_generation{0};

/// Stays readable after the thread's kernels are destroyed: other objects of the thread may launch
/// as they end.
constinit thread_local bool kernels_are_gone = false;

/// Handles are addresses of driver objects, which are some hundred bytes apart.
std::size_t spread(const void* function) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(function);
  return (number >> 4) ^ (number >> 10);
}

}  // namespace

/// The kernels that the calling thread launched most recently.
class KnownKernels::ThreadKernels {
 public:
  struct Kernel {
    std::uint64_t generation = 0;  // None's.
    const void* function = nullptr;
    Parameters parameters;
  };

  /// Null while the calling thread ends.
  static ThreadKernels* mine() noexcept {
    if (kernels_are_gone) return nullptr;
    static thread_local ThreadKernels kernels;
    return &kernels;
  }
  ~ThreadKernels() { kernels_are_gone = true; }

  /// Its position, present or not.
  Kernel& place_of(const void* function) noexcept {
    return kernels_[spread(function) % kernels_.size()];
  }

 private:
  std::array<Kernel, 64> kernels_;
};

KnownKernels::KnownKernels(Driver& driver) noexcept
    : driver_(driver), generation_(++last_generation) {}

KnownKernels::Shard& KnownKernels::shard_of(const void* function) noexcept {
  return shards_[spread(function) % shard_count];
}

const KernelParameters* KnownKernels::parameters_of(const void* function) {
  ThreadKernels* const mine = ThreadKernels::mine();
  if (mine == nullptr) return nullptr;
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  ThreadKernels::Kernel& last = mine->place_of(function);
  const bool has_it = last.generation == generation && last.function == function;
  if (has_it && driver_.has_parameters(function, *last.parameters)) return last.parameters.get();
  last = {};
  last = {generation, function, find_or_ask(function, generation)};
  return last.parameters.get();
}

KnownKernels::Parameters KnownKernels::find_or_ask(const void* function, std::uint64_t generation) {
  Shard& shard = shard_of(function);
  Parameters known;
  {
    const MutexLock lock(shard.mutex);
    if (const auto found = shard.kernels.find(function); found != shard.kernels.end()) {
      known = found->second;
    }
  }
  if (known && driver_.has_parameters(function, *known)) return known;
  auto asked = std::make_shared<const KernelParameters>(driver_.kernel_parameters(function));
  const MutexLock lock(shard.mutex);
  // An answer from before a `forget` may be about an unloaded kernel: it is used only once.
  if (generation_.load() != generation) return asked;
  if (shard.kernels.size() >= kernels_max / shard_count) shard.kernels.clear();
  shard.kernels.insert_or_assign(function, asked);
  return asked;
}

void KnownKernels::forget() noexcept {
  generation_ = ++last_generation;  // First, so that concurrent lookups are not cached.
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.kernels.clear();
  }
}

std::size_t KnownKernels::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    size += shard.kernels.size();
  }
  return size;
}

}  // namespace vma
