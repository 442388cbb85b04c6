#include "lab/replay/replay_account.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "lab/replay/replay_scheduler.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

namespace vma {

ReplayWindows::ReplayWindows(Time length, std::size_t most) : most_(most), length_(length) {
  VMART_CHECK(length > Time::zero() && most > 0, "time passes from one window to the next");
}

void ReplayWindows::begin(Time now) {
  begin_ = now;
  end_ = now + length_;
  windows_.assign(1, {});
}

void ReplayWindows::pass(Time now, const std::vector<std::uint64_t>& resident) {
  auto number = static_cast<std::size_t>((now - begin_) / length_);
  for (; number >= most_; number /= 2) halve();
  windows_.resize(number + 1);
  for (std::size_t i = number; i > 0 && windows_[i - 1].resident.empty(); --i)
    windows_[i - 1].resident = resident;
  end_ = begin_ + static_cast<Time::rep>(number + 1) * length_;
}

/// Merges pairs; each ends with its second window. The current window has not ended yet.
void ReplayWindows::halve() {
  const std::size_t count = windows_.size();
  for (std::size_t i = 0; i < count; ++i) {
    ReplayWindow each = std::exchange(windows_[i], {});
    ReplayWindow& both = windows_[i / 2];
    both.bytes += each.bytes;
    both.access_s += each.access_s;
    both.local_s += each.local_s;
    both.bytes_moved += each.bytes_moved;
    both.resident = std::move(each.resident);
  }
  windows_.resize((count + 1) / 2);
  length_ *= 2;
}

std::vector<ReplayWindow> ReplayWindows::take(const std::vector<std::uint64_t>& resident) {
  windows_.back().resident = resident;
  return std::exchange(windows_, {});
}

ReplayAccount::ReplayAccount(const ReplayMachine& machine, const ReplayOptions& options)
    : machine_(machine),
      thrash_window_(options.scheduler.planner.thrash_window),
      carried_(machine.links.size()),
      windows_(options.window) {
  ReplayDevice device;
  device.bytes_by_place.resize(machine.costs.places());
  report_.devices.assign(machine.costs.gpus(), device);
  for (const PlaceState& place : machine.places) report_.places.push_back(to_string(place.place));
  route_bytes_.resize(report_.places.size() * report_.places.size());
}

void ReplayAccount::begin(const TraceTags& tags, Time now) {
  tags_ = &tags;
  report_.begin = report_.end = now;
  windows_.begin(now);
}

void ReplayAccount::refuse(const TraceEvent& event, const char* why) const {
  throw Error(ErrorKind::invalid_argument, "Replay::run",
              fmt::format("event {}: {} of object {}, {}", report_.events + 1,
                          to_string(event.kind), event.object, why));
}

void ReplayAccount::mark(TagId text, Time now) {
  report_.marks.emplace_back(now, std::string(tags_->text(text)));
}

void ReplayAccount::access_began(Time waited) noexcept {
  report_.wait_s += std::chrono::duration<double>(waited).count();
}

void ReplayAccount::reached(std::size_t device, PlaceId at, double bytes) {
  report_.devices[device].bytes_by_place[index(at)] += bytes;
}

void ReplayAccount::access_ended(const EndedAccess& access, Time now) {
  const double seconds = std::chrono::duration<double>(now - access.began).count();
  report_.end = now;
  ++report_.accesses;
  report_.bytes += access.bytes;
  report_.access_s += seconds;
  report_.paused_s += std::chrono::duration<double>(access.stopped).count();
  report_.local_s += access.local_s;
  ReplayWindow& stretch = windows_.current();
  stretch.bytes += access.bytes;
  stretch.access_s += seconds;
  stretch.local_s += access.local_s;
  ReplayTenant& tenant = tenant_of(access.tag);
  ++tenant.accesses;
  tenant.bytes += access.bytes;
  tenant.access_s += seconds;
  tenant.local_s += access.local_s;
  ReplayDevice& own = report_.devices[access.device];
  ++own.accesses;
  own.bytes += access.bytes;
  own.local_s += access.local_s;
  own.busy += now - access.began;
}

ReplayTenant& ReplayAccount::tenant_of(TagId tag) {
  const auto number = static_cast<std::size_t>(tag);
  if (tenants_.size() <= number) tenants_.resize(number + 1, nullptr);
  if (tenants_[number] == nullptr)
    tenants_[number] = &report_.tenants[std::string(tags_->text(tag))];
  return *tenants_[number];
}

void ReplayAccount::gate_opened(Time skew, Time stall) noexcept {
  ++report_.gates;
  report_.skew += skew;
  report_.stall += stall;
}

void ReplayAccount::move_ended(const ReplayMoves::Ended& ended, Time now) {
  const AcceptedMove& move = ended.move;
  ++report_.moves;
  report_.bytes_moved += move.bytes;
  report_.move_s += in_seconds(machine_.costs.move_time(move.from, move.to, move.bytes));
  report_.move_stall_s += in_seconds(machine_.costs.stall_time(move.from, move.to, move.bytes));
  windows_.current().bytes_moved += move.bytes;
  route_bytes_[index(move.from) * report_.places.size() + index(move.to)] += move.bytes;
  if (came_from_.size() <= index(move.chunk)) came_from_.resize(index(move.chunk) + 1);
  std::optional<Origin>& before = came_from_[index(move.chunk)];
  if (before && before->at == move.to && now - before->moved <= thrash_window_) ++report_.thrashes;
  before = {move.from, now};
}

void ReplayAccount::note_links(const LinkTraffic& traffic) {
  carried_ = traffic.carried();
}

void ReplayAccount::pass_window(Time now, const std::vector<std::uint64_t>& resident) {
  windows_.pass(now, resident);
}

ReplayReport ReplayAccount::finish(const ReplayScheduler& scheduler) {
  const ReplayScheduler::Counters& counters = scheduler.counters();
  report_.moves_wanted = counters.moves_wanted;
  report_.moves_refused = counters.moves_refused;
  report_.policy_failures = counters.policy_failures;
  report_.advances = counters.advances;
  report_.advances_lost = counters.advances_lost;
  report_.pace_stops = counters.pace_stops;
  report_.ticks = counters.ticks;
  for (std::size_t place = 0; place < report_.places.size(); ++place) {
    double& bytes = report_.bytes_by_place[report_.places[place]];
    for (const ReplayDevice& device : report_.devices) bytes += device.bytes_by_place[place];
  }
  for (std::size_t route = 0; route < route_bytes_.size(); ++route) {
    if (route_bytes_[route] == 0) continue;
    const auto& from = report_.places[route / report_.places.size()];
    const auto& to = report_.places[route % report_.places.size()];
    report_.bytes_by_route[fmt::format("{}>{}", from, to)] = route_bytes_[route];
  }
  for (std::size_t link = 0; link < carried_.size(); ++link)
    report_.bytes_by_link[machine_.links.name(static_cast<LinkId>(link))] = carried_[link];
  report_.window = windows_.length();
  report_.windows = windows_.take(scheduler.resident_bytes());
  return std::move(report_);
}

}  // namespace vma
