#pragma once

#include <vma/export.hpp>

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// A place for physical memory: the HBM of one GPU, or the memory of one host NUMA node.
///
/// A plain value. Any ordinal is accepted here; one that the machine does not have throws where it
/// is used. GPU ordinals are CUDA's, after CUDA_VISIBLE_DEVICES.
struct Place {
  enum class Kind { gpu, host };

  Kind kind = Kind::gpu;
  int ordinal = 0;

  friend auto operator<=>(const Place&, const Place&) = default;
};

constexpr Place gpu(int ordinal) {
  return {Place::Kind::gpu, ordinal};
}
constexpr Place host(int node) {
  return {Place::Kind::host, node};
}

/// "gpu(0)", "host(1)".
VMART_EXPORT std::string to_string(Place place);

/// Parses "gpu0", "GPU0", "gpu:0", "gpu(0)", "cuda:0", "host0", "cpu". Throws: invalid_argument.
VMART_EXPORT Place parse_place(const std::string& text);

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

template <>
struct std::hash<vma::Place> {
  std::size_t operator()(const vma::Place& place) const noexcept {
    return static_cast<std::size_t>(place.ordinal) * 2 +
           (place.kind == vma::Place::Kind::host ? 1 : 0);
  }
};
