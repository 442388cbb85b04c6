#include "placement/auto/outlook.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma::inline v1 {
namespace {

// A hint without an end is trusted for this share of the horizon after it should have come true.
constexpr double late_share = 0.25;

std::optional<PlaceId> place_of(const Snapshot& snapshot, Place device) {
  const auto places = snapshot.places();
  for (std::size_t i = 0; i < snapshot.costs().gpus(); ++i) {
    if (places[i].place == device) return PlaceId{static_cast<std::uint8_t>(i)};
  }
  return std::nullopt;
}

}  // namespace

void Outlook::read(const Snapshot& snapshot, ChunkId chunk, double horizon_seconds,
                   const Hint* hint) {
  costs_ = &snapshot.costs();
  lies_at_ = snapshot.chunk(chunk).at;
  uses_.resize(snapshot.chunk(chunk).users);
  std::size_t count = 0;
  double short_total = 0, long_total = 0;
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    if (heat.long_term() < bytes_s_least) return;
    short_total += heat.short_term();
    long_total += heat.long_term();
    uses_[count++] = {device, heat.short_term(), heat.short_term()};
  });
  uses_.resize(count);
  demand_ = short_total;
  announced_ = false;
  if (hint == nullptr) hint = snapshot.hint(chunk);
  if (hint != nullptr && hint->until) {
    horizon_seconds = std::clamp(in_seconds(*hint->until - snapshot.now()), 0.0, horizon_seconds);
  }
  const double lasting = short_total > 0 ? std::min(1.0, long_total / short_total) : 0;
  for (Expected& use : uses_) use.bytes *= lasting * horizon_seconds;
  if (hint != nullptr) announce(snapshot, chunk, *hint, horizon_seconds);
  if (!announced_ && endings_ != nullptr && endings_->ended(chunk, demand_, snapshot))
    uses_.clear();
  find_main();
}

void Outlook::read_shift(const Snapshot& snapshot, const UseShifts::Shift& shift, Time lasts) {
  costs_ = &snapshot.costs();
  uses_.clear();
  demand_ = 0;
  const double length = std::max(in_seconds(shift.length()), 1e-9);
  for (const UsedBytes& user : shift.users) {
    demand_ += user.bytes / length;
    const double rate = user.bytes / length;
    uses_.push_back({user.device, rate * in_seconds(lasts), rate});
  }
  find_main();
}

void Outlook::share_out(std::span<const UsedBytes> users) {
  if (users.empty()) return;  // The usual case.
  double expected = 0, used = 0;
  for (const Expected& use : uses_) expected += use.bytes;
  for (const UsedBytes& user : users) used += user.bytes;
  if (used <= 0) return;
  uses_.resize(users.size());
  for (std::size_t i = 0; i < users.size(); ++i) {
    const double share = users[i].bytes / used;
    uses_[i] = {users[i].device, expected * share, demand_ * share};
  }
  find_main();
}

void Outlook::announce(const Snapshot& snapshot, ChunkId chunk, const Hint& hint,
                       double horizon_seconds) {
  const std::optional<PlaceId> device = place_of(snapshot, hint.device);
  if (!device || !hint.next_use) return;
  const double until_use = in_seconds(*hint.next_use - snapshot.now());
  if (until_use < -late_share * horizon_seconds) return;
  announced_ = true;
  const bool soon = until_use <= horizon_seconds;
  const double before = horizon_seconds > 0 ? std::clamp(until_use / horizon_seconds, 0.0, 1.0) : 0;
  double announced =
      soon ? std::max(0.0, hint.passes) * static_cast<double>(snapshot.chunk(chunk).bytes) : 0;
  for (Expected& use : uses_) {
    if (use.device == *device) {
      use.bytes = soon ? std::max(use.bytes * (1 - before), announced) : 0;
      announced = 0;
    } else if (until_use > 0) {
      use.bytes *= before;
    }
  }
  if (announced > 0) uses_.push_back({*device, announced, 0});
}

void Outlook::find_main() {
  double most = -1;
  for (const Expected& use : uses_) {
    if (use.bytes < most || (use.bytes == most && main_ < use.device)) continue;
    most = use.bytes;
    main_ = use.device;
  }
}

Outlook::Seconds Outlook::seconds_at(PlaceId at) const {
  const double all = all_seconds_at(at);
  if (limits_ == nullptr || announced_ || !std::isfinite(all)) return {all, all};
  double held_up = 0;
  for (const Expected& use : uses_) {
    const double more = at == lies_at_ ? 0 : use.rate;
    held_up +=
        limits_->share(use.device, at, more) * use.bytes / costs_->access_rate(use.device, at);
  }
  return {all, held_up};
}

double Outlook::all_seconds_at(PlaceId at) const {
  double seconds = 0;
  for (const Expected& use : uses_) {
    const double rate = costs_->access_rate(use.device, at);
    if (rate <= 0) return std::numeric_limits<double>::infinity();
    seconds += use.bytes / rate;
  }
  return seconds;
}

std::optional<PlaceId> Outlook::slower_place() const {
  if (idle() && index(lies_at_) >= costs_->gpus()) return std::nullopt;
  const auto order = costs_->by_speed(idle() ? lies_at_ : main_);
  const auto here = std::ranges::find(order, lies_at_);
  if (here == order.end() || here + 1 == order.end()) return std::nullopt;
  return *(here + 1);
}

double Outlook::main_share() const {
  double all = 0, main = 0;
  for (const Expected& use : uses_) {
    all += use.bytes;
    if (use.device == main_) main = use.bytes;
  }
  return all > 0 ? main / all : 0;
}

}  // namespace vma::inline v1
