#pragma once

#include <vma/export.hpp>

#include <vector>

namespace vma::inline v1 {

/// The connection between two GPUs; `same` is a GPU and itself.
enum class LinkKind { same, nvlink, pcie, none };

/// How the GPUs of a machine are connected, in order. Unknown parts are empty.
struct PeerLinks {
  std::vector<std::vector<LinkKind>> kinds;  ///< [from][to]
  /// Bytes per second that kernels can move over a GPU's NVLink in both directions together: its
  /// accesses to other GPUs and their accesses to it. 0 if unknown.
  std::vector<double> both_ways;

  friend bool operator==(const PeerLinks&, const PeerLinks&) = default;
};

}  // namespace vma::inline v1
