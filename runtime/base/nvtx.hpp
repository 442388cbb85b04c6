#pragma once

#include <string>

namespace vma {

/// Names for profilers: ranges of NVTX, through the library `libnvToolsExt.so.1` where it is
/// installed. Without it every call is a branch. Any thread.
class Nvtx {
 public:
  /// The one of this process: loaded at the first call if VMART_NVTX is 1, else without effect.
  static const Nvtx& process();
  /// Null for none. A library that is not there, or lacks the calls, is as good as none.
  explicit Nvtx(const char* library) noexcept;

  bool loaded() const noexcept { return push_ != nullptr && pop_ != nullptr; }
  /// Ranges nest a thread; push and pop come on the same one.
  void push(const char* name) const noexcept;
  void pop() const noexcept;

 private:
  // The layout of nvtxEventAttributes_t, version 2, as far as a message needs it.
  struct Attributes;
  // The library stays loaded: a profiler may have its own threads in it.
  int (*push_)(const char* name) = nullptr;
  int (*pop_)() = nullptr;
  void* domain_ = nullptr;
  int (*domain_push_)(void* domain, const Attributes* attributes) = nullptr;
  int (*domain_pop_)(void* domain) = nullptr;
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
