#pragma once

#include "abi/run_table.hpp"

namespace vma::interpose {

/// libvmart, which is loaded when the program first needs it, so that programs without a GPU do not
/// load it.
struct VmartLibrary {
  /// Null if it cannot be loaded; then vmart is disabled. Any thread.
  static const RunTable* load() noexcept;
  /// Null until `load` has succeeded, and in a child of fork.
  static const RunTable* loaded() noexcept;
};

/// Exists around a call that looks memory up: no slot is dark meanwhile.
class CopyScope {
 public:
  explicit CopyScope(bool wanted = true) noexcept
      : vmart_(wanted ? VmartLibrary::loaded() : nullptr) {
    if (vmart_ != nullptr) vmart_->vmart_copy_begin();
  }
  ~CopyScope() {
    if (vmart_ != nullptr) vmart_->vmart_copy_end();
  }
  CopyScope(const CopyScope&) = delete;
  CopyScope& operator=(const CopyScope&) = delete;

 private:
  const RunTable* const vmart_;
};

}  // namespace vma::interpose
