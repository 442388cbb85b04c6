#include "runtime/known_kernels.hpp"

#include <utility>

namespace vma {
namespace {

std::atomic<std::uint64_t> last_table{0};
std::atomic<std::uint64_t> forgets{0};  // Answers from before the last one are ignored.
std::atomic<bool> unloads_are_told{false};

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
    std::uint64_t table = 0;  // None's.
    std::uint64_t forgets = 0;
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

KnownKernels::KnownKernels(Driver& driver) noexcept : driver_(driver), number_(++last_table) {}

KnownKernels::Shard& KnownKernels::shard_of(const void* function) noexcept {
  return shards_[spread(function) % shard_count];
}

void KnownKernels::expect_told_unloads(bool told) noexcept {
  unloads_are_told = told;
  if (told) forget();  // Those before were not told.
}

/// Whether it is still the kernel of the answer.
bool KnownKernels::is_same(const void* function, const KernelParameters& known) {
  return unloads_are_told.load(std::memory_order_relaxed) ||
         driver_.has_parameters(function, known);
}

const KernelParameters* KnownKernels::parameters_of(const void* function) {
  ThreadKernels* const mine = ThreadKernels::mine();
  if (mine == nullptr) return nullptr;
  const std::uint64_t now = forgets.load(std::memory_order_acquire);
  ThreadKernels::Kernel& last = mine->place_of(function);
  const bool has_it = last.table == number_ && last.forgets == now && last.function == function;
  if (has_it && is_same(function, *last.parameters)) return last.parameters.get();
  last = {};
  last = {number_, now, function, find_or_ask(function, now)};
  return last.parameters.get();
}

KnownKernels::Parameters KnownKernels::find_or_ask(const void* function, std::uint64_t now) {
  Shard& shard = shard_of(function);
  Parameters known;
  {
    const MutexLock lock(shard.mutex);
    if (std::exchange(shard.forgets, now) != now) shard.kernels.clear();
    if (const auto found = shard.kernels.find(function); found != shard.kernels.end()) {
      known = found->second;
    }
  }
  if (known && is_same(function, *known)) return known;
  auto asked = std::make_shared<const KernelParameters>(driver_.kernel_parameters(function));
  const MutexLock lock(shard.mutex);
  // An answer from before a `forget` may be about an unloaded kernel: it is used only once.
  if (shard.forgets != now || forgets.load() != now) return asked;
  if (shard.kernels.size() >= kernels_max / shard_count) shard.kernels.clear();
  shard.kernels.insert_or_assign(function, asked);
  return asked;
}

void KnownKernels::forget() noexcept {
  ++forgets;
}

std::size_t KnownKernels::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    if (shard.forgets == forgets.load()) size += shard.kernels.size();
  }
  return size;
}

}  // namespace vma
