#pragma once

#include <string>

namespace vma {

/// Names for profilers: ranges of NVTX 3, whose headers load the tool that the profiler names.
/// Without a tool, and in a build without these headers, every call is a branch. Any thread.
class Nvtx {
 public:
  /// The one of this process: asks for a tool at the first call if VMART_NVTX is 1, else without
  /// effect.
  static const Nvtx& process();
  explicit Nvtx(bool wanted) noexcept;

  /// Whether a tool takes the ranges.
  bool loaded() const noexcept { return domain_ != nullptr; }
  /// Ranges nest a thread; push and pop come on the same one.
  void push(const char* name) const noexcept;
  void pop() const noexcept;

 private:
  void* domain_ = nullptr;  // An nvtxDomainHandle_t, which only a tool makes. Never destroyed.
};

/// A range for a scope. The name is made only where somebody listens:
///   NvtxRange range([&] { return fmt::format("vmart move to {}", to_string(to)); });
class NvtxRange {
 public:
  template <typename Name>  // std::string name()
  explicit NvtxRange(Name&& name, const Nvtx& nvtx = Nvtx::process()) : nvtx_(nvtx) {
    if (nvtx_.loaded()) nvtx_.push(std::string(name()).c_str());
  }
  ~NvtxRange() {
    if (nvtx_.loaded()) nvtx_.pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const Nvtx& nvtx_;
};

}  // namespace vma
