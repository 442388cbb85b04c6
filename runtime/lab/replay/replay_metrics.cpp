#include "lab/replay/replay_metrics.hpp"

#include "base/units.hpp"
#include "base/vectors.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <boost/json/value_from.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vma {
namespace {

struct Stretch {
  Time begin{0};
  double slowdown = 0;
};

/// The windows with accesses that lie entirely in the phase. The last phase ends with the replay,
/// as does the last window.
std::vector<Stretch> stretches(const ReplayReport& report, Time begin, Time end) {
  std::vector<Stretch> found;
  // The first window that begins at or after the mark.
  auto number =
      static_cast<std::size_t>((begin - report.begin + report.window - Time(1)) / report.window);
  for (; number < report.windows.size(); ++number) {
    const Time from = report.begin + static_cast<Time::rep>(number) * report.window;
    if (end < Time::max() && from + report.window > end) break;
    const ReplayWindow& window = report.windows[number];
    if (window.local_s > 0) found.push_back({from, window.access_s / window.local_s});
  }
  return found;
}

std::optional<Time> settling_time(const std::vector<Stretch>& phase, Time mark) {
  if (phase.size() < settling_windows_min) return std::nullopt;
  const std::size_t last_quarter = phase.size() - phase.size() / 4;
  std::vector<double> last;
  for (std::size_t i = last_quarter; i < phase.size(); ++i) last.push_back(phase[i].slowdown);
  const double level = median(std::move(last));
  std::size_t first = phase.size();
  while (first > 0 && std::abs(phase[first - 1].slowdown - level) <= at_rest_within * level)
    --first;
  if (first > last_quarter) return std::nullopt;
  return first == 0 ? Time::zero() : phase[first].begin - mark;
}

std::optional<double> ratio(double part, double whole) {
  if (!(whole > 0)) return std::nullopt;
  return part / whole;
}

void set_shares(ReplayMetrics& metrics, const ReplayReport& report, const ReplayMachine& machine) {
  double own = 0, peer = 0, host = 0;
  for (std::size_t device = 0; device < report.devices.size(); ++device) {
    const std::vector<double>& bytes = report.devices[device].bytes_by_place;
    for (std::size_t at = 0; at < bytes.size(); ++at)
      (at == device ? own : at < machine.costs.gpus() ? peer : host) += bytes[at];
  }
  const double all = own + peer + host;
  metrics.own_share = ratio(own, all);
  metrics.peer_share = ratio(peer, all);
  metrics.host_share = ratio(host, all);
}

void set_device_shares(ReplayMetrics& metrics, const ReplayReport& report) {
  double most_accesses = 0, most_bytes = 0;
  for (const ReplayDevice& device : report.devices) {
    most_accesses = std::max(most_accesses, static_cast<double>(device.accesses));
    most_bytes = std::max(most_bytes, device.bytes);
  }
  metrics.device_accesses_max = ratio(most_accesses, static_cast<double>(report.accesses));
  metrics.device_share_max = ratio(most_bytes, report.bytes);
}

void set_fairness(ReplayMetrics& metrics, const ReplayReport& report) {
  std::vector<double> tenants, devices;
  for (const auto& [tag, tenant] : report.tenants)
    if (tenant.local_s > 0) tenants.push_back(tenant.access_s / tenant.local_s);
  for (const ReplayDevice& device : report.devices)
    if (device.local_s > 0) devices.push_back(in_seconds(device.busy) / device.local_s);
  metrics.fairness_tenants = jain_index(tenants);
  metrics.fairness_devices = jain_index(devices);
}

void set_settling(ReplayMetrics& metrics, const ReplayReport& report) {
  metrics.marks = report.marks.size();
  double sum = 0;
  for (const std::optional<Time>& time : rest_times(report)) {
    if (!time) continue;
    ++metrics.marks_at_rest;
    sum += in_seconds(*time);
  }
  metrics.rest_s = ratio(sum, static_cast<double>(metrics.marks_at_rest));
}

std::optional<double> mean(const std::vector<double>& values) {
  return ratio(std::accumulate(values.begin(), values.end(), 0.0),
               static_cast<double>(values.size()));
}

std::optional<double> nearest_rank_p99(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto rank = static_cast<std::ptrdiff_t>((values.size() * 99 + 99) / 100) - 1;
  std::ranges::nth_element(values, values.begin() + rank);
  return values[static_cast<std::size_t>(rank)];
}

void set_requests(ReplayMetrics& metrics, const ReplayReport& report) {
  std::vector<double> firsts, steps, queued;
  for (const ReplayRequest& request : report.requests) {
    firsts.push_back(in_seconds(request.until_first()));
    if (request.steps > 0) steps.push_back(in_seconds(request.a_step()));
    const ReplayDelays& delays = request.delays;
    queued.push_back(in_seconds(delays.queued));
    metrics.requests_queued += delays.queued > Time::zero() ? 1 : 0;
    metrics.preemptions += delays.preemptions;
    metrics.steps_again += delays.steps_again;
    metrics.bytes_again += delays.bytes_again;
  }
  metrics.requests = report.requests.size();
  metrics.first_mean_s = mean(firsts);
  metrics.first_p99_s = nearest_rank_p99(std::move(firsts));
  metrics.step_mean_s = mean(steps);
  metrics.step_p99_s = nearest_rank_p99(std::move(steps));
  metrics.queue_mean_s = mean(queued);
  metrics.queue_p99_s = nearest_rank_p99(std::move(queued));
}

void set_goodput(ReplayMetrics& metrics, const ReplayReport& report, const RequestLimits& limits) {
  if (!limits.first && !limits.step) return;
  const auto met = std::ranges::count_if(report.requests, [&](const ReplayRequest& request) {
    return request.until_first() <= limits.first.value_or(Time::max()) &&
           request.a_step() <= limits.step.value_or(Time::max());
  });
  metrics.goodput = ratio(static_cast<double>(met), metrics.seconds);
  metrics.limits_met = ratio(static_cast<double>(met), static_cast<double>(report.requests.size()));
}

void set_links(ReplayMetrics& metrics, const ReplayReport& report, const ReplayMachine& machine) {
  for (std::size_t link = 0; link < machine.links.size(); ++link) {
    const auto id = static_cast<LinkId>(link);
    const std::string& name = machine.links.name(id);
    const double could = machine.links.capacity(id) * metrics.seconds;
    const double use = ratio(report.bytes_by_link.at(name), could).value_or(0);
    metrics.links[name] = use;
    metrics.link_use_max = std::max(metrics.link_use_max, use);
  }
}

}  // namespace

std::vector<std::optional<Time>> rest_times(const ReplayReport& report) {
  std::vector<std::optional<Time>> times;
  for (std::size_t i = 0; i < report.marks.size(); ++i) {
    const Time mark = report.marks[i].first;
    const bool last = i + 1 == report.marks.size();
    const Time end = last ? Time::max() : report.marks[i + 1].first;
    times.push_back(settling_time(stretches(report, mark, end), mark));
  }
  return times;
}

std::optional<double> jain_index(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return ratio(sum * sum, static_cast<double>(values.size()) * squares);
}

ReplayMetrics metrics_of(const ReplayReport& report, const ReplayMachine& machine,
                         const RequestLimits& limits) {
  ReplayMetrics metrics;
  metrics.seconds = report.seconds();
  metrics.accesses = report.accesses;
  metrics.bytes = report.bytes;
  metrics.access_s = report.access_s;
  metrics.local_s = report.local_s;
  metrics.excess_s = report.access_s - report.local_s;
  metrics.slowdown = ratio(report.access_s, report.local_s);
  metrics.paused_s = report.paused_s;
  metrics.wait_s = report.wait_s;
  metrics.move_s = report.move_s;
  metrics.access_move_s = report.access_s + report.move_s;
  metrics.moves = report.moves;
  metrics.bytes_moved = report.bytes_moved;
  metrics.stall_s = in_seconds(report.stall);
  metrics.skew_s = in_seconds(report.skew);
  for (const ReplayDevice& device : report.devices) metrics.stopped_s += in_seconds(device.stopped);
  metrics.cost_s = report.access_s - report.paused_s + report.wait_s + metrics.stopped_s +
                   report.move_s - report.move_stall_s;
  metrics.floor_s = report.local_s;
  metrics.excess_ratio = ratio(metrics.cost_s - metrics.floor_s, metrics.floor_s);
  metrics.thrashes = report.thrashes;
  metrics.accesses_lost = report.accesses_lost;
  metrics.allocations_lost = report.allocations_lost;
  metrics.chunks_spilled = report.chunks_spilled;
  metrics.policy_failures = report.policy_failures;
  set_shares(metrics, report, machine);
  set_device_shares(metrics, report);
  set_fairness(metrics, report);
  set_settling(metrics, report);
  set_requests(metrics, report);
  set_goodput(metrics, report, limits);
  set_links(metrics, report, machine);
  return metrics;
}

std::optional<CrowdedDevice> crowded_device(const ReplayReport& report) {
  if (report.devices.size() < 2 || report.accesses == 0) return std::nullopt;
  const auto most = std::ranges::max_element(report.devices, {}, &ReplayDevice::accesses);
  const double share = static_cast<double>(most->accesses) / static_cast<double>(report.accesses);
  const double equal_share = 1 / static_cast<double>(report.devices.size());
  if (share <= std::max(0.5, 1.5 * equal_share)) return std::nullopt;
  return CrowdedDevice{static_cast<std::size_t>(most - report.devices.begin()), share};
}

boost::json::object to_json(const ReplayMetrics& metrics) {
  return {{"seconds", metrics.seconds},
          {"accesses", metrics.accesses},
          {"bytes", metrics.bytes},
          {"access_s", metrics.access_s},
          {"local_s", metrics.local_s},
          {"excess_s", metrics.excess_s},
          {"slowdown", boost::json::value_from(metrics.slowdown)},
          {"paused_s", metrics.paused_s},
          {"wait_s", metrics.wait_s},
          {"move_s", metrics.move_s},
          {"access_move_s", metrics.access_move_s},
          {"cost_s", metrics.cost_s},
          {"floor_s", metrics.floor_s},
          {"excess_ratio", boost::json::value_from(metrics.excess_ratio)},
          {"moves", metrics.moves},
          {"bytes_moved", metrics.bytes_moved},
          {"stall_s", metrics.stall_s},
          {"skew_s", metrics.skew_s},
          {"stopped_s", metrics.stopped_s},
          {"thrashes", metrics.thrashes},
          {"own_share", boost::json::value_from(metrics.own_share)},
          {"peer_share", boost::json::value_from(metrics.peer_share)},
          {"host_share", boost::json::value_from(metrics.host_share)},
          {"device_accesses_max", boost::json::value_from(metrics.device_accesses_max)},
          {"device_share_max", boost::json::value_from(metrics.device_share_max)},
          {"fairness_tenants", boost::json::value_from(metrics.fairness_tenants)},
          {"fairness_devices", boost::json::value_from(metrics.fairness_devices)},
          {"rest_s", boost::json::value_from(metrics.rest_s)},
          {"marks_at_rest", metrics.marks_at_rest},
          {"marks", metrics.marks},
          {"requests", metrics.requests},
          {"first_mean_s", boost::json::value_from(metrics.first_mean_s)},
          {"first_p99_s", boost::json::value_from(metrics.first_p99_s)},
          {"step_mean_s", boost::json::value_from(metrics.step_mean_s)},
          {"step_p99_s", boost::json::value_from(metrics.step_p99_s)},
          {"requests_queued", metrics.requests_queued},
          {"queue_mean_s", boost::json::value_from(metrics.queue_mean_s)},
          {"queue_p99_s", boost::json::value_from(metrics.queue_p99_s)},
          {"preemptions", metrics.preemptions},
          {"steps_again", metrics.steps_again},
          {"bytes_again", metrics.bytes_again},
          {"goodput", boost::json::value_from(metrics.goodput)},
          {"limits_met", boost::json::value_from(metrics.limits_met)},
          {"link_use_max", metrics.link_use_max},
          {"links", boost::json::value_from(metrics.links)},
          {"accesses_lost", metrics.accesses_lost},
          {"allocations_lost", metrics.allocations_lost},
          {"chunks_spilled", metrics.chunks_spilled},
          {"policy_failures", metrics.policy_failures}};
}

}  // namespace vma
