#include "twin/bug_driver.hpp"

#include "migrate/copying/digest.hpp"
#include "support/plays.hpp"
#include "support/twin_kernels.hpp"

#include <vector>

namespace vma {
namespace {

constexpr const char* planted_ptx =
#include "support/kernels/planted_settle.ptx.inc"
    ;

/// Forwards every access except the stores of digests.
class ForgetfulView final : public DeviceView {
 public:
  ForgetfulView(DeviceView& memory, const std::byte* digests, std::uint64_t size_bytes)
      : memory_(memory), digests_(digests), end_(digests + size_bytes) {}

  int device() const override { return memory_.device(); }
  void read(const void* address, std::span<std::byte> out) override { memory_.read(address, out); }
  void write(void* address, std::span<const std::byte> bytes) override {
    const auto* begin = static_cast<const std::byte*>(address);
    if (begin >= digests_ && begin < end_) return;
    memory_.write(address, bytes);
  }
  std::uint64_t atomic_add(std::uint64_t* address, std::uint64_t value) override {
    return memory_.atomic_add(address, value);
  }

 private:
  DeviceView& memory_;
  const std::byte* const digests_;
  const std::byte* const end_;
};

}  // namespace

Kernel broken_settle_kernel(const Kernel& settle, TwinBug bug) {
  if (bug == TwinBug::no_settling) return twin_settle_nothing_kernel();
  Kernel broken = settle;
  broken.ptx = planted_ptx;
  broken.host_body = [whole = settle.host_body](
                         DeviceView& memory, const KernelArguments& arguments, LaunchShape shape) {
    // The arguments are those of `settle_arguments`.
    ForgetfulView view(memory, arguments.at<const std::byte*>(2),
                       arguments.at<std::uint64_t>(5) * digest_bytes);
    whole(view, arguments, shape);
  };
  return broken;
}

void BugDriver::batch(BoundStream stream, std::span<const WordOperation> operations) {
  // A gate's batch has two operations; the last one waits.
  if (bug_ == TwinBug::no_gate && operations.size() == 2) operations = operations.first(1);
  InterceptDriver::batch(stream, operations);
}

void BugDriver::stop(BoundStream stream, ExecGraphHandle chain,
                     std::span<const WordOperation> words) {
  if (bug_ != TwinBug::no_gate) return InterceptDriver::stop(stream, chain, words);
  batch(stream, words.first(1));
}

std::vector<KernelHandle> BugDriver::load_kernels(ContextHandle context,
                                                  std::span<const Kernel* const> kernels,
                                                  std::span<const std::uint64_t> image) {
  const bool breaks = bug_ == TwinBug::old_digest || bug_ == TwinBug::no_settling;
  if (!breaks) return InterceptDriver::load_kernels(context, kernels, image);
  std::vector<KernelHandle> handles;
  for (const Kernel* const kernel : kernels) {
    const bool broken = kernel->entry == settle_kernel().entry;
    handles.push_back(load_kernel(context, broken ? broken_settle_kernel(*kernel, bug_) : *kernel));
  }
  return handles;
}

void BugDriver::grant(Address begin, std::uint64_t size_bytes,
                      std::span<const Accessor> accessors) {
  constexpr int every = 3;
  if (bug_ == TwinBug::old_digest && stopped_ > 0 && ++grants_ % every == 0) {
    const Stopped standing(clock());
    nap(clock(), 2 * gate_limit_);
  }
  InterceptDriver::grant(begin, size_bytes, accessors);
}

void BugDriver::note_stopped(int change) noexcept {
  stopped_ += change;
  InterceptDriver::note_stopped(change);
}

}  // namespace vma
