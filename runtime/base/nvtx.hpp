#pragma once

#include <string>

namespace vma {

/// Names ranges for profilers with NVTX 3, whose headers load the tool that the profiler specifies.
/// Without a tool, or in a build without these headers, every call costs only a branch. Any thread.
class Nvtx {
 public:
  /// The instance of this process. If VMART_NVTX is 1, the first call loads a tool; otherwise the
  /// instance does nothing.
  static const Nvtx& process();
  explicit Nvtx(bool wanted) noexcept;

  /// Whether a tool receives ranges.
  bool loaded() const noexcept { return domain_ != nullptr; }
  /// Ranges nest per thread; push and pop must run on the same thread.
  void push(const char* name) const noexcept;
  void pop() const noexcept;

 private:
  void* domain_ = nullptr;  // An nvtxDomainHandle_t; null without a tool. Never destroyed.
};

/// A range that lasts as long as the object. The name is only created if a tool is loaded:
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
