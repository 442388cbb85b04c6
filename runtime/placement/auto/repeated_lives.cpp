#include "placement/auto/repeated_lives.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {

/// Where it is, or belongs.
std::vector<ExpectedEnds::Listed>::iterator ExpectedEnds::find(PlaceId device, Time at,
                                                               LiveAllocations::Number allocation) {
  return std::ranges::partition_point(by_time_[index(device)], [&](const Listed& listed) {
    return std::pair(listed.end.at, listed.allocation) > std::pair(at, allocation);
  });
}

void ExpectedEnds::put(LiveAllocations::Number allocation, PlaceId device, const End& end) {
  drop(allocation);
  if (allocation >= places_.size()) places_.resize(allocation + 1);
  if (index(device) >= by_time_.size()) by_time_.resize(index(device) + 1);
  by_time_[index(device)].insert(find(device, end.at, allocation), {end, allocation});
  places_[allocation] = {device, end.at, true};
}

void ExpectedEnds::drop(LiveAllocations::Number allocation) {
  if (allocation >= places_.size() || !places_[allocation].listed) return;
  const Place place = std::exchange(places_[allocation], {});
  std::vector<Listed>& ends = by_time_[index(place.device)];
  const auto found = find(place.device, place.at, allocation);
  VMART_CHECK(found != ends.end() && found->allocation == allocation,
              "an end is listed where it was put");
  ends.erase(found);
}

/// Returns false once it has erred too often.
bool RequestOrder::step(Follower& follower, std::uint64_t next) const {
  for (std::size_t skipped = 0; skipped <= skipped_max; ++skipped) {
    const Number at = follower.at + 1 + skipped;
    if (at >= count_) break;
    if (signature(at) != next) continue;
    follower.at = at;
    follower.run = skipped == 0 ? follower.run + 1 : follower.run / 2 + 1;
    follower.errors = 0;
    return has(at);
  }
  follower.run /= 2;
  return ++follower.errors <= errors_max && has(follower.at);
}

/// Where the last requests occurred before, unless one is there already.
void RequestOrder::begin_follower() {
  if (count_ < begins_with) return;
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a.
  for (std::size_t i = 0; i < begins_with; ++i)
    sum = (sum ^ signature(count_ - 1 - i)) * 1099511628211u;
  if (last_.size() >= 2 * kept) last_.clear();
  const auto [found, is_new] = last_.try_emplace(sum, count_ - 1);
  const Number before = std::exchange(found->second, count_ - 1);
  if (is_new || !has(before)) return;
  if (std::ranges::find(followers_, before, &Follower::at) != followers_.end()) return;
  if (followers_.size() == followers_max)
    followers_.erase(std::ranges::min_element(followers_, {}, &Follower::run));
  followers_.push_back({before, begins_with, 0});
}

std::optional<RequestOrder::Number> RequestOrder::add(std::uint64_t next) {
  signatures_.resize(kept);
  std::erase_if(followers_, [&](Follower& follower) { return !step(follower, next); });
  signatures_[count_ % kept] = next;
  ++count_;
  begin_follower();
  const auto best = std::ranges::max_element(followers_, {}, [](const Follower& follower) {
    return std::pair(follower.errors == 0 ? follower.run : 0, follower.at);
  });
  if (best == followers_.end() || best->errors > 0) return std::nullopt;
  return best->at;
}

namespace {

constexpr Time unseen_took = std::chrono::milliseconds(1);  // It ended before a use was reported.
constexpr double unseen_passes = 2;                         // Written once and read once.
constexpr Time unseen_max = std::chrono::seconds(10);       // After that it has failed.
constexpr std::size_t requests_ahead_max = 4096, live_max = 4096;  // For one request.
constexpr int likes_max = 8;  // Iterations back, if the last ones have not ended.
constexpr double alike = 1.5;

/// FNV-1a by words.
std::uint64_t signature_of(const AllocRequest& request) {
  std::uint64_t sum = (14695981039346656037u ^ request.bytes) * 1099511628211u;
  for (const char letter : request.tag)
    sum = (sum ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return sum ^ sum >> 29;
}

bool about(double left, double right, double more) {
  return left <= alike * right + more && right <= alike * left + more;
}

}  // namespace

/// Free bytes in the course of a life, from its begin on.
class RepeatedLives::Forecast {
 public:
  explicit Forecast(Time span)
      : step_(std::max(span / static_cast<int>(steps), Time(1))),
        steps_each_(1 / static_cast<double>(step_.count())) {}

  Time span() const { return step_ * static_cast<int>(steps); }
  /// Bytes that become free at a time; taken if negative. What becomes free counts from the next
  /// step on.
  void add(Time at, double bytes) {
    const Time from = std::max(at, Time::zero());
    if (from >= span()) return;
    const std::size_t step = step_of(from);
    change_[bytes > 0 ? std::min(step + 1, steps) : step] += bytes;
  }
  /// The smallest sum of all that was added until any time.
  double least() const {
    double sum = 0, least = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      sum += change_[i];
      least = std::min(least, sum);
    }
    return least;
  }

 private:
  static constexpr std::size_t steps = 64;
  /// `from / step_`: there are few steps, so the product is at most one off, and a division of
  /// whole numbers takes several times as long.
  std::size_t step_of(Time from) const {
    auto step = static_cast<Time::rep>(static_cast<double>(from.count()) * steps_each_);
    if (step * step_ > from) --step;
    if ((step + 1) * step_ <= from) ++step;
    return static_cast<std::size_t>(step);
  }

  Time step_;
  double steps_each_;  // A nanosecond.
  std::array<double, steps + 1> change_{};
};

double RepeatedLives::Life::density() const {
  return passes / std::max(in_seconds(took), in_seconds(unseen_took));
}

RepeatedLives::Life* RepeatedLives::find(const Name& name) {
  Requests& requests = requests_[index(name.device)];
  return requests.order.has(name.number) ? &requests.lives[name.number % RequestOrder::kept]
                                         : nullptr;
}

/// The last one of those that it repeats, one iteration before the other, that has ended.
const RepeatedLives::Life* RepeatedLives::ended_like(const Requests& requests,
                                                     const Life& life) const {
  const Life* like = &life;
  for (int i = 0; i < likes_max; ++i) {
    if (!like->has_like || !requests.order.has(like->like)) return nullptr;
    like = &life_of(requests, like->like);
    if (like->ended) return like;
  }
  return nullptr;
}

// --- Requests

void RepeatedLives::asked(const AllocRequest& request, const Snapshot& snapshot) {
  asked_by_ = request.device;
  if (index(request.device) >= requests_.size()) requests_.resize(index(request.device) + 1);
  Requests& requests = requests_[index(request.device)];
  requests.lives.resize(RequestOrder::kept);
  Life life;
  life.number = requests.order.count();
  life.bytes = request.bytes;
  life.born = requests.last = snapshot.now();
  if (const std::optional<Number> like = requests.order.add(signature_of(request))) {
    life.has_like = true;
    life.like = *like;
    if (requests.order.has(*like)) {
      std::optional<Number>& last_repeat = requests.lives[*like % RequestOrder::kept].last_repeat;
      life.repeat_before = std::exchange(last_repeat, life.number);
    }
  }
  requests.lives[life.number % RequestOrder::kept] = life;
}

std::size_t RepeatedLives::near_places(PlaceId device, const MachineCosts& costs) {
  const std::span<const PlaceId> order = costs.by_speed(device);
  const auto host =
      std::ranges::find_if(order, [&](PlaceId place) { return index(place) >= costs.gpus(); });
  return static_cast<std::size_t>(host - order.begin());
}

/// Whether one's memory is near the other.
bool RepeatedLives::shares_memory(PlaceId device, PlaceId other, const MachineCosts& costs) const {
  const auto near = costs.by_speed(device).first(near_places(device, costs));
  return std::ranges::find(near, other) != near.end();
}

void RepeatedLives::count_ends(PlaceId device, const Snapshot& snapshot, Forecast& forecast) const {
  const Time now = snapshot.now();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const PlaceId other{static_cast<std::uint8_t>(i)};
    if (!shares_memory(device, other, snapshot.costs())) continue;
    ends_.for_each(other, now + forecast.span(), [&](const ExpectedEnds::End& end) {
      const bool overdue = now - end.at >= end.took;
      if (!overdue && requests_[i].order.has(end.like)) forecast.add(end.at - now, end.bytes);
    });
  }
}

/// What follows the request that the GPU's last one repeats.
void RepeatedLives::count_requests(PlaceId device, double density, const Snapshot& snapshot,
                                   Forecast& forecast) const {
  if (index(device) >= requests_.size()) return;
  const Requests& requests = requests_[index(device)];
  const RequestOrder& order = requests.order;
  if (order.count() == 0) return;
  const Life& last = life_of(requests, order.count() - 1);
  if (!last.has_like || !order.has(last.like)) return;
  Number number = last.like + 1;
  // If the GPU is late, all of it comes later.
  const Time shift = std::min(life_of(requests, last.like).born + (snapshot.now() - requests.last),
                              life_of(requests, number).born);
  for (std::size_t i = 0; i < requests_ahead_max && number < order.count(); ++i, ++number) {
    const Life& life = life_of(requests, number);
    const Time begin = life.born - shift;
    if (begin >= forecast.span()) return;
    const Life* like = life.ended ? &life : ended_like(requests, life);
    if (like == nullptr || like->density() <= density) continue;
    forecast.add(begin, -static_cast<double>(like->bytes));
    forecast.add(std::max(begin, Time::zero()) + like->took, static_cast<double>(like->bytes));
  }
}

std::optional<std::uint64_t> RepeatedLives::room_near(const Snapshot& snapshot) const {
  const Requests& requests = requests_[index(asked_by_)];
  const Life* like = ended_like(requests, life_of(requests, requests.order.count() - 1));
  if (like == nullptr) return std::nullopt;
  const MachineCosts& costs = snapshot.costs();
  Forecast forecast(like->took);
  count_ends(asked_by_, snapshot, forecast);
  double free = 0;
  for (const PlaceId place : costs.by_speed(asked_by_).first(near_places(asked_by_, costs))) {
    free += static_cast<double>(snapshot.place(place).free_bytes());
    count_requests(place, like->density(), snapshot, forecast);
  }
  return static_cast<std::uint64_t>(
      std::clamp(free + forecast.least(), 0.0, static_cast<double>(like->bytes)));
}

std::uint64_t RepeatedLives::needed_near(PlaceId device, Time until,
                                         const Snapshot& snapshot) const {
  if (until <= snapshot.now()) return 0;
  const MachineCosts& costs = snapshot.costs();
  Forecast forecast(until - snapshot.now());
  count_ends(device, snapshot, forecast);
  for (const PlaceId place : costs.by_speed(device).first(near_places(device, costs)))
    count_requests(place, 0, snapshot, forecast);
  return static_cast<std::uint64_t>(-forecast.least());
}

void RepeatedLives::placed(const AllocRequest& request, std::span<const PlaceId> places,
                           const Snapshot& snapshot) {
  const Name name{request.device, requests_[index(request.device)].order.count() - 1};
  Life& life = *find(name);
  const MachineCosts& costs = snapshot.costs();
  const auto near = costs.by_speed(request.device).first(near_places(request.device, costs));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_near = std::ranges::find(near, places[i]) != near.end();
    const std::uint64_t left = request.bytes - i * request.chunk_bytes;
    life.near_bytes += is_near ? std::min(left, request.chunk_bytes) : 0;
  }
  LiveAllocations::Allocation allocation;
  allocation.bytes = request.bytes;
  allocation.chunk_bytes = request.chunk_bytes;
  allocation.born = snapshot.now();
  const LiveAllocations::Number number =
      allocations_.add(allocation, request.tag, places, snapshot);
  if (number >= names_.size()) names_.resize(number + 1);
  names_[number] = name;
  life.allocation = number;
  expect_end(requests_[index(request.device)], life);
}

// --- Lives

std::optional<RepeatedLives::Name> RepeatedLives::name_of(ChunkId chunk, const Snapshot& snapshot) {
  const LiveAllocations::Number number = allocations_.find(chunk, snapshot);
  if (number == LiveAllocations::none) return std::nullopt;
  return names_[number];
}

bool RepeatedLives::repeats(ChunkId chunk, const Snapshot& snapshot) {
  const std::optional<Name> name = name_of(chunk, snapshot);
  const Life* life = name ? find(*name) : nullptr;
  if (life == nullptr) return false;
  const Life* like = ended_like(requests_[index(name->device)], *life);
  return like != nullptr && snapshot.now() - life->born < 2 * like->took;
}

bool RepeatedLives::used(const UseEvent& use, const Snapshot& snapshot) {
  const std::optional<Name> name = name_of(use.chunk, snapshot);
  Life* life = name ? find(*name) : nullptr;
  if (life == nullptr) return false;
  const double passes = use.bytes() / static_cast<double>(life->bytes);
  const Time since = snapshot.now() - life->born;
  life->passes += passes;
  Use* last = life->used > 0 ? &life->uses[life->used - 1] : nullptr;
  const bool goes_on = last != nullptr && last->device == use.device && since - last->last < apart_;
  if (goes_on || life->used == uses_max) {
    last->last = since;
    last->passes += passes;
    return false;
  }
  life->uses[life->used++] = {since, since, use.device, passes};
  return true;
}

std::optional<NextUse> RepeatedLives::next(ChunkId chunk, const Snapshot& snapshot) {
  const std::optional<Name> name = name_of(chunk, snapshot);
  const Life* life = name ? find(*name) : nullptr;
  if (life == nullptr) return std::nullopt;
  const Life* like = ended_like(requests_[index(name->device)], *life);
  if (like == nullptr) return std::nullopt;
  Time after = snapshot.now() - life->born;
  if (life->used > 0) after = std::max(after, life->uses[life->used - 1].last + apart_);
  for (std::size_t i = 0; i < like->used; ++i) {
    const Use& use = like->uses[i];
    if (use.begin > after) return NextUse{life->born + use.begin, use.device, use.passes};
  }
  return std::nullopt;
}

/// Requires: the life is that of a live allocation.
void RepeatedLives::expect_end(const Requests& requests, const Life& life) {
  const Life* like = ended_like(requests, life);
  if (like == nullptr || life.allocation >= live_max) return;
  ends_.put(
      life.allocation, names_[life.allocation].device,
      {life.born + like->took, like->took, static_cast<double>(life.near_bytes), like->number});
}

/// A life has ended: it is the last one that ended of those that its repeats repeat.
void RepeatedLives::expect_ends_like(const Requests& requests, const Life& ended, int iterations) {
  if (iterations > likes_max) return;
  for (std::optional<Number> number = ended.last_repeat; number && requests.order.has(*number);) {
    const Life& life = life_of(requests, *number);
    if (life.allocation != LiveAllocations::none) expect_end(requests, life);
    if (!life.ended) expect_ends_like(requests, life, iterations + 1);
    number = life.repeat_before;
  }
}

void RepeatedLives::end(const Name& name, Time took) {
  Life* life = find(name);
  if (life == nullptr || life->ended) return;
  if (life->passes == 0) life->passes = unseen_passes;
  life->took = std::max(took, unseen_took);
  const Requests& requests = requests_[index(name.device)];
  const Life* like = ended_like(requests, *life);
  life->ended = true;
  expect_ends_like(requests, *life, 1);
  if (like == nullptr) return;
  record_.note(about(in_seconds(life->took), in_seconds(like->took), in_seconds(apart_)) &&
               about(life->passes, like->passes, 1));
}

void RepeatedLives::gone(ChunkId chunk, Time now) {
  const LiveAllocations::Number number = allocations_.gone(chunk);
  if (number == LiveAllocations::none) return;
  const Name name = names_[number];
  if (const Life* life = find(name)) end(name, now - life->born);
  forget(number);
  allocations_.forget(number);
}

/// The allocation does not live any more.
void RepeatedLives::forget(LiveAllocations::Number number) {
  ends_.drop(number);
  if (Life* life = find(names_[number])) life->allocation = LiveAllocations::none;
}

void RepeatedLives::end_tick(const Snapshot& snapshot) {
  allocations_.end_tick(snapshot);
  const auto number_of = [&](const LiveAllocations::Allocation& allocation) {
    return static_cast<LiveAllocations::Number>(&allocation - allocations_.all().data());
  };
  allocations_.unseen(last_tick_, [&](LiveAllocations::Allocation& allocation) {
    end(names_[number_of(allocation)], unseen_took);
  });
  const Time failed = std::min(last_tick_, snapshot.now() - unseen_max);
  allocations_.unseen(
      failed, [&](LiveAllocations::Allocation& allocation) { forget(number_of(allocation)); });
  allocations_.drop_unseen(failed);
  last_tick_ = snapshot.now();
}

}  // namespace vma::inline v1
