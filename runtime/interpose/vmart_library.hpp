#pragma once

#include "abi/run_table.hpp"

namespace vma::interpose {

/// libvmart, which is loaded when the program first needs it, so that programs without a GPU do not
/// load it.
struct VmartLibrary {
  /// Null if it cannot be loaded; then this process stands aside. Any thread.
  static const RunTable* load() noexcept;
  /// Null until `load` has succeeded, and in a child of fork.
  static const RunTable* loaded() noexcept;
};

}  // namespace vma::interpose
