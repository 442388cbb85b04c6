#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// As written in files: "same", "nvlink", "pcie" or "none".
std::string_view to_string(LinkKind kind);
/// Returns nothing for any other text.
std::optional<LinkKind> parse_link_kind(std::string_view text);

/// What one runtime may use of a machine: its places, their sizes, and which GPUs reach which.
/// Determined once by driver queries; immutable afterwards, so any thread may read it.
class Topology {
 public:
  /// `devices` are CUDA ordinals; empty selects all. Queries peer access for each ordered pair and
  /// never assumes it. Throws: Error{no_driver} without a device, {invalid_argument} for an unknown
  /// or repeated device, {unsupported} for one without virtual memory management.
  static Topology discover(Driver& driver, std::span<const int> devices);

  /// GPUs first, then host nodes.
  const std::vector<Place>& places() const noexcept { return places_; }
  const std::vector<DeviceId>& devices() const noexcept { return devices_; }
  bool has(Place at) const noexcept;
  /// Throws: Error{invalid_argument} that names `call` and lists the existing places.
  void require(Place at, const char* call) const;

  const DeviceInfo& info(DeviceId device) const { return infos_.at(device); }
  const LinkInfo& link(DeviceId from, DeviceId to) const { return links_.at({from, to}); }
  /// [from][to], in the order of `devices`; `none` if the GPU does not reach the other one.
  std::vector<std::vector<LinkKind>> link_kinds() const;
  /// HBM of a GPU; 0 for host nodes, whose size the driver does not report.
  std::uint64_t memory_bytes(Place at) const;

  /// The host node closest to the GPU; the first one if that is not one of these places.
  Place nearest_host(DeviceId device) const;

  bool reaches(DeviceId from, Place at) const;
  /// Whether atomics of these GPUs on memory at `at` see each other. Those of a single GPU do.
  bool atomics_work(std::span<const DeviceId> devices, Place at) const;
  /// All accessors that can reach memory at `at`, with read and write access. A chunk is granted to
  /// these.
  const std::vector<Accessor>& readers(Place at) const { return readers_.at(at); }

  /// The smallest allocation granularity that all places support.
  std::uint64_t granularity() const noexcept { return granularity_; }

 private:
  std::vector<Place> places_;
  std::vector<DeviceId> devices_;
  std::map<DeviceId, DeviceInfo> infos_;
  std::map<std::pair<DeviceId, DeviceId>, LinkInfo> links_;
  std::map<std::pair<DeviceId, DeviceId>, bool> peers_;
  std::map<Place, std::vector<Accessor>> readers_;
  std::uint64_t granularity_ = 0;
};

}  // namespace vma
