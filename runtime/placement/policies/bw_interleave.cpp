#include "placement/policies/bw_interleave.hpp"

#include "placement/weighing/room_for_chunks.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace vma::inline v1 {
namespace {

enum Group : std::size_t { own, peer, host_node, groups };

Group group_of(const MachineCosts& costs, PlaceId device, PlaceId at) {
  if (at == device) return own;
  return index(at) < costs.gpus() ? peer : host_node;
}

/// The share of one place in a device's allocations.
struct Part {
  PlaceId at{};
  double rate = 0;  // Bytes per second that it adds to the others.
};

class BwInterleave final : public Policy {
 public:
  explicit BwInterleave(const PolicyValues& values)
      : min_share_(values["min_share"]), peers_(values.flag("peers")) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    const std::vector<Part> parts = parts_of(snapshot.costs(), request.device);
    std::vector<double>& credit = credits_[request.device];
    credit.resize(snapshot.places().size());
    RoomForChunks room(snapshot);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const std::uint64_t bytes = chunk_bytes_of(request, i);
      if (const Part* part = next_part(parts, credit, room, bytes)) {
        room.take(part->at, bytes);
        chunks[i] = part->at;
      } else if (const auto at =
                     room.take_first(snapshot.costs().by_speed(request.device), bytes)) {
        chunks[i] = *at;
      }
    }
  }

 private:
  std::vector<Part> parts_of(const MachineCosts& costs, PlaceId device) const;
  static const Part* next_part(const std::vector<Part>& parts, std::vector<double>& credit,
                               const RoomForChunks& room, std::uint64_t bytes);

  const double min_share_;
  const bool peers_;
  std::map<PlaceId, std::vector<double>> credits_;  // Bytes that a place is owed, by device.
};

/// In order of speed.
std::vector<Part> BwInterleave::parts_of(const MachineCosts& costs, PlaceId device) const {
  std::array<double, groups> fastest{}, sum{};
  for (const PlaceId at : costs.by_speed(device)) {
    const Group group = group_of(costs, device, at);
    if (group == peer && !peers_) continue;
    const double rate = costs.access_rate(device, at);
    fastest[group] = std::max(fastest[group], rate);
    sum[group] += rate;
  }
  const double all = fastest[own] + fastest[peer] + fastest[host_node];
  std::vector<Part> parts;
  for (const PlaceId at : costs.by_speed(device)) {
    const Group group = group_of(costs, device, at);
    if (sum[group] <= 0 || fastest[group] < min_share_ * all) continue;
    parts.push_back({at, fastest[group] * costs.access_rate(device, at) / sum[group]});
  }
  return parts;
}

/// Null if no part has room.
const Part* BwInterleave::next_part(const std::vector<Part>& parts, std::vector<double>& credit,
                                    const RoomForChunks& room, std::uint64_t bytes) {
  double rates = 0;
  for (const Part& part : parts) {
    if (room.fits(part.at, bytes)) rates += part.rate;
  }
  const Part* best = nullptr;
  for (const Part& part : parts) {
    if (!room.fits(part.at, bytes)) continue;
    double& its = credit[index(part.at)];
    its += static_cast<double>(bytes) * part.rate / rates;
    if (best == nullptr || its > credit[index(best->at)]) best = &part;
  }
  if (best != nullptr) credit[index(best->at)] -= static_cast<double>(bytes);
  return best;
}

}  // namespace

PolicyKind bw_interleave_kind() {
  using enum PolicyParameter::Type;
  return {"bw_interleave",
          "BW-AWARE: Agarwal et al., ASPLOS 2015",
          {{"min_share", number, 0.05, 0, 1,
            "places with less than this share of the device's total bandwidth are not used"},
           {"peers", flag, 1, 0, 1, "also uses other GPUs' HBM"}},
          [](const PolicyValues& values) {
            return std::unique_ptr<Policy>(std::make_unique<BwInterleave>(values));
          }};
}

}  // namespace vma::inline v1
