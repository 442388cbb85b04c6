#pragma once

#include "support/drivers/intercept_driver.hpp"
#include "twin/twin_bug.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace vma {

/// Breaks what the bytes of a live migration depend on:
///
/// - `no_gate`: a stream reports its arrival at a gate but does not stop;
/// - `old_digest`: settling copies changed bytes but keeps the old digest. That shows only with
///   gates that are given up after settling, so some grants during a stop take longer than a gate
///   may;
/// - `no_settling`: the settling kernel does nothing.
class BugDriver final : public InterceptDriver {
 public:
  BugDriver(Driver& inner, TwinBug bug, std::chrono::nanoseconds gate_limit)
      : InterceptDriver(inner), bug_(bug), gate_limit_(gate_limit) {}

  void batch(BoundStream stream, std::span<const WordOperation> operations) override;
  void stop(BoundStream stream, ExecGraphHandle chain,
            std::span<const WordOperation> words) override;
  std::vector<KernelHandle> load_kernels(ContextHandle context,
                                         std::span<const Kernel* const> kernels,
                                         std::span<const std::uint64_t> image) override;
  void grant(Address begin, std::uint64_t size_bytes, std::span<const Accessor> accessors) override;
  void note_stopped(int change) noexcept override;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }

  const TwinBug bug_;
  const std::chrono::nanoseconds gate_limit_;
  std::atomic<int> stopped_{0};
  std::atomic<int> grants_{0};
};

/// The settling kernel with the given bug, `old_digest` or `no_settling`, for both kinds of
/// machines.
Kernel broken_settle_kernel(const Kernel& settle, TwinBug bug);

}  // namespace vma
