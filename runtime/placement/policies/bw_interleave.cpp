#include "placement/policies/built_in_policies.hpp"

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

/// `bw_interleave`: stripes an allocation over several places in proportion to the bandwidth that
/// the device has to each, so that all of them are busy when it is read from end to end. Memory is
/// placed once and never moved.
///
/// Source: BW-AWARE page placement, Agarwal, Nellans, Stephenson, O'Connor, Keckler, "Page
/// Placement Strategies for GPUs within Heterogeneous Memory Systems", ASPLOS 2015: of memories
/// with bandwidths b_1 .. b_n, memory i gets the share b_i / (b_1 + ... + b_n) of the pages, and
/// when it is full they go to the others. There a page's place is drawn at random. Here it is a
/// weighted round robin that keeps remainders: each chunk credits every participating place with
/// its share of the chunk's bytes, goes to the place with the most credit (of equals the fastest)
/// and is debited there. Remainders carry over from one allocation of a device to its next, because
/// the paper's shares are those of all pages of a program and not of one array. A place without
/// room for a chunk is neither credited nor debited for it, so that it is owed nothing afterwards.
///
/// Participating places: the device's own HBM, the peers, and the hosts. All peers are behind one
/// port of the device, and all hosts behind another, so peers together count as the fastest of
/// them, and share that in proportion; so do hosts. A group whose share of the whole would be less
/// than `min_share` does not participate, nor do peers if `peers` is 0. If no participating place
/// has room, chunks go to the fastest place that has.
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
