#pragma once

#include <vector>

namespace vma::inline v1 {

/// What connects two GPUs; `same` is one with itself.
enum class LinkKind { same, nvlink, pcie, none };

/// How the GPUs of a machine are linked with each other, in their order. What is not known is
/// empty.
struct PeerLinks {
  std::vector<std::vector<LinkKind>> kinds;  ///< [from][to]
  /// Bytes a second that kernels move over a GPU's NVLink in and out together: what it reads of
  /// other GPUs and writes there, and what these read and write in it. 0: not known of this one.
  std::vector<double> both_ways;

  friend bool operator==(const PeerLinks&, const PeerLinks&) = default;
};

}  // namespace vma::inline v1
