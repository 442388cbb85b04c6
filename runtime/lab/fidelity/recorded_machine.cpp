#include "lab/fidelity/recorded_machine.hpp"

#include "placement/books/place_number.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, "recorded_machine", reason);
}

std::string names_of(const std::vector<Place>& places) {
  std::string names;
  for (const Place at : places)
    names += fmt::format("{}{}", names.empty() ? "" : " ", to_string(at));
  return names;
}

bool beyond_host(const MachineCosts& costs, std::size_t device, std::size_t peer) {
  const double rate = costs.access_rate(place_numbered(device), place_numbered(peer));
  for (std::size_t at = costs.gpus(); at < costs.places(); ++at)
    if (costs.access_rate(place_numbered(device), place_numbered(at)) >= rate) return false;
  return rate > 0;
}

/// Derives unknown links between GPUs from their costs.
PeerLinks known(PeerLinks peers, const MachineCosts& costs) {
  if (!peers.kinds.empty()) return peers;
  for (std::size_t from = 0; from < costs.gpus(); ++from) {
    std::vector<LinkKind>& row = peers.kinds.emplace_back();
    for (std::size_t to = 0; to < costs.gpus(); ++to) {
      const LinkKind kind = beyond_host(costs, from, to) ? LinkKind::nvlink : LinkKind::pcie;
      row.push_back(from == to ? LinkKind::same : kind);
    }
  }
  return peers;
}

/// Prefers the calibration's links; older calibrations may lack some.
PeerLinks newer(const PeerLinks& calibrated, const PeerLinks& before) {
  return {calibrated.kinds.empty() ? before.kinds : calibrated.kinds,
          calibrated.both_ways.empty() ? before.both_ways : calibrated.both_ways};
}

void require_same(const Calibration& calibration, const std::vector<PlaceState>& states,
                  std::string_view whose) {
  std::vector<Place> places;
  for (const PlaceState& each : states) places.push_back(each.place);
  if (calibration.places == places) return;
  refuse(fmt::format("{}: is a calibration of {}, and the {} has {}", calibration.file,
                     names_of(calibration.places), whose, names_of(places)));
}

}  // namespace

ReplayMachine recorded_machine(const RecordingHeader& header,
                               const std::optional<Calibration>& calibration) {
  if (calibration) require_same(*calibration, header.places, "recording");
  const MachineCosts& costs = calibration ? calibration->costs : header.costs;
  const LaunchGaps& gaps = calibration ? calibration->gaps : header.gaps;
  std::vector<PlaceState> states = header.places;
  for (std::size_t at = 0; at < states.size(); ++at) {
    const bool on_gpu = at < costs.gpus();
    if ((states[at].place.kind == Place::Kind::gpu) != on_gpu)
      refuse("the GPUs are not the first places of the recording");
    const auto number = static_cast<int>(on_gpu ? at : at - costs.gpus());
    states[at].place = on_gpu ? gpu(number) : host(number);
    states[at].used_bytes = 0;
    if (on_gpu && costs.access_rate(place_numbered(at), place_numbered(at)) <= 0)
      refuse(fmt::format("by the costs, {} cannot read its own memory",
                         to_string(header.places[at].place)));
  }
  if (costs.gpus() == 0) refuse("the recording has no GPU");
  const LateStops late = calibration ? calibration->late : LateStops();
  PeerLinks peers =
      known(calibration ? newer(calibration->peers, header.peers) : header.peers, costs);
  LinkMap links(peers, costs);
  return {header.machine, std::move(states), costs, std::move(links), gaps, late, std::move(peers)};
}

ReplayMachine calibrated_machine(ReplayMachine machine, const Calibration& calibration) {
  require_same(calibration, machine.places, "machine");
  machine.costs = calibration.costs;
  machine.gaps = calibration.gaps;
  machine.late = calibration.late;
  machine.peers = known(newer(calibration.peers, machine.peers), machine.costs);
  machine.links = LinkMap(machine.peers, machine.costs);
  return machine;
}

}  // namespace vma
