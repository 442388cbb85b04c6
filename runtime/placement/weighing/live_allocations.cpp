#include "placement/weighing/live_allocations.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma::inline v1 {
namespace {

constexpr std::size_t contexts_max = std::size_t{1} << 16;  // Of one generation.
constexpr double age_least_s = 1e-3;                        // Uses are reported once a millisecond.
constexpr double passes_unseen = 2;                         // Written once and read once.

/// FNV-1a by words, finished as splitmix64 is.
std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 1099511628211u;
  sum ^= sum >> 30;
  sum *= 0xbf58476d1ce4e5b9u;
  return sum ^ (sum >> 27);
}

std::uint64_t signature(const AllocRequest& request) {
  std::uint64_t sum = mix(14695981039346656037u, request.bytes);
  sum = mix(sum, index(request.device));
  for (const char letter : request.tag) sum = mix(sum, static_cast<unsigned char>(letter));
  return sum;
}

constexpr double life_least_s = 1e-3;  // Uses are reported once a millisecond.

/// The rows of an allocation are adjacent.
template <typename Body>  // body(const ChunkRow&)
void for_each_row(ChunkId first, const Snapshot& snapshot, Body&& body) {
  const std::span<const ChunkRow> rows = snapshot.chunks().subspan(index(first));
  const std::uint32_t allocation = rows[0].allocation;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ChunkRow& row = rows[i];
    if (row.bytes == 0 || row.allocation != allocation || row.slot != i) return;
    body(row);
  }
}

bool lies_at(const std::vector<PlaceId>& places, ChunkId first, const Snapshot& snapshot) {
  bool same = true;
  for_each_row(first, snapshot, [&](const ChunkRow& row) {
    same = same && row.slot < places.size() && row.at == places[row.slot];
  });
  return same;
}

}  // namespace

AllocationContexts::Keys AllocationContexts::see(const AllocRequest& request) {
  constexpr std::size_t most = lengths.back();
  if (requests_.size() < most) {
    requests_.push_back(signature(request));
  } else {
    requests_[next_ % most] = signature(request);
  }
  ++next_;
  Keys keys;
  std::uint64_t sum = 0;
  std::size_t taken = 0;
  for (const std::size_t length : lengths) {
    if (length > requests_.size()) break;
    for (; taken < length; ++taken) sum = mix(sum, requests_[(next_ - 1 - taken) % most]);
    keys.of_length[keys.count++] = mix(sum, length);
  }
  return keys;
}

const AllocationContexts::Context* AllocationContexts::find(std::uint64_t key) const {
  for (const Contexts* contexts : {&newer_, &older_}) {
    const auto found = contexts->find(key);
    if (found != contexts->end()) return &found->second;
  }
  return nullptr;
}

AllocationContexts::Context& AllocationContexts::at(std::uint64_t key) {
  const auto found = newer_.find(key);
  if (found != newer_.end()) return found->second;
  if (newer_.size() >= contexts_max) {
    older_ = std::move(newer_);
    newer_.clear();
  }
  const auto before = older_.find(key);
  const Context known = before == older_.end() ? Context{} : before->second;
  return newer_.emplace(key, known).first->second;
}

std::optional<Lifetime> AllocationContexts::expected(const Keys& keys, Time now) const {
  for (std::size_t i = keys.count; i-- > 0;) {
    const Context* context = find(keys.of_length[i]);
    if (context == nullptr) continue;
    if (context->known) return context->last;
    const double age = in_seconds(now - context->begun);
    return Lifetime{2 * age, passes_unseen / std::max(age, age_least_s)};
  }
  return std::nullopt;
}

void AllocationContexts::begun(const Keys& keys, Time now) {
  for (std::size_t i = 0; i < keys.count; ++i) at(keys.of_length[i]).begun = now;
}

void AllocationContexts::ended(const Keys& keys, const Lifetime& lifetime) {
  for (std::size_t i = 0; i < keys.count; ++i) {
    Context& context = at(keys.of_length[i]);
    context.last = lifetime;
    context.known = true;
  }
}

Lifetime LiveAllocations::Allocation::lifetime() const {
  const double life = std::max(life_least_s, in_seconds(last_use - born));
  return {life, std::max(1.0, used_bytes / static_cast<double>(bytes)) / life};
}

LiveAllocations::Number LiveAllocations::add(const Allocation& allocation, std::string_view tag,
                                             std::span<const PlaceId> places,
                                             const Snapshot& snapshot) {
  look(snapshot);
  if (unused_.empty()) {
    unused_.push_back(static_cast<Number>(all_.size()));
    all_.emplace_back();
  }
  const Number number = unused_.back();
  unused_.pop_back();
  all_[number] = allocation;
  unseen_.push_back({number, std::string(tag), {places.begin(), places.end()}});
  return number;
}

// --- What has come

/// Finds the requests of allocations that appeared since the last time.
void LiveAllocations::look(const Snapshot& snapshot) {
  of_chunk_.resize(std::max(of_chunk_.size(), snapshot.chunks().size()), none);
  std::vector<Newcomer> newcomers;
  const std::span<const ChunkId> changed = snapshot.changed();
  if (changes_seen_ > changed.size()) changes_seen_ = 0;  // A tick passed without this call.
  for_each_ahead(
      snapshot, changed.subspan(changes_seen_), [](ChunkId) {}, [](ChunkId) {},
      [&](ChunkId chunk) { take_in(chunk, snapshot, newcomers); });
  changes_seen_ = changed.size();
  std::erase_if(vacant_, [&](ChunkId chunk) {
    if (snapshot.chunk(chunk).bytes == 0) return false;
    take_in(chunk, snapshot, newcomers);
    return true;
  });
  std::ranges::sort(newcomers, {}, [&](const Newcomer& newcomer) {
    return snapshot.chunk(newcomer.first).allocation;  // They are numbered in their order.
  });
  match(newcomers, snapshot, true);
  match(newcomers, snapshot, false);
}

void LiveAllocations::end_tick(const Snapshot& snapshot) {
  look(snapshot);
  changes_seen_ = 0;
  vacant_.clear();
}

/// The chunk's allocation, if it was not searched for yet. It has no request until it is matched.
void LiveAllocations::take_in(ChunkId chunk, const Snapshot& snapshot,
                              std::vector<Newcomer>& newcomers) {
  if (snapshot.chunk(chunk).bytes == 0) return;
  Newcomer newcomer{snapshot.first_of(chunk)};
  Number& number = of_chunk_[index(newcomer.first)];
  if (number != none) return;
  number = nobodys;
  for_each_row(newcomer.first, snapshot, [&](const ChunkRow& row) { newcomer.bytes += row.bytes; });
  newcomers.push_back(newcomer);
}

bool LiveAllocations::fits(const Request& request, const Newcomer& newcomer,
                           const Snapshot& snapshot) const {
  const Allocation& allocation = all_[request.number];
  const ChunkRow& row = snapshot.chunk(newcomer.first);
  return allocation.bytes == newcomer.bytes && allocation.born <= row.born &&
         std::min(allocation.bytes, allocation.chunk_bytes) == row.bytes &&
         request.tag == snapshot.tag(newcomer.first);
}

/// Matches each to the last fitting request, going backwards: equal ones keep their order, and
/// failed requests are assumed to be earlier ones. Leaves those without a match.
void LiveAllocations::match(std::vector<Newcomer>& newcomers, const Snapshot& snapshot,
                            bool places_agree) {
  for (auto newcomer = newcomers.rbegin(); newcomer != newcomers.rend(); ++newcomer) {
    const auto request = std::find_if(unseen_.rbegin(), unseen_.rend(), [&](const Request& each) {
      return fits(each, *newcomer, snapshot) &&
             (!places_agree || lies_at(each.places, newcomer->first, snapshot));
    });
    if (request == unseen_.rend()) continue;
    all_[request->number].first = static_cast<std::uint32_t>(newcomer->first);
    of_chunk_[index(newcomer->first)] = request->number;
    unseen_.erase(std::next(request).base());
    newcomer->bytes = 0;
  }
  std::erase_if(newcomers, [](const Newcomer& newcomer) { return newcomer.bytes == 0; });
}

LiveAllocations::Number LiveAllocations::find(ChunkId chunk, const Snapshot& snapshot) {
  const ChunkId first = snapshot.first_of(chunk);
  if (index(first) >= of_chunk_.size() || of_chunk_[index(first)] == none) {
    changes_seen_ = 0;  // Its row may have been in the list before.
    look(snapshot);
  }
  Number& number = of_chunk_[index(first)];
  if (number == none) number = nobodys;  // It is older than the requests.
  return number == nobodys ? none : number;
}

LiveAllocations::Number LiveAllocations::gone(ChunkId chunk) {
  vacant_.push_back(chunk);
  if (index(chunk) >= of_chunk_.size()) return none;
  const Number number = std::exchange(of_chunk_[index(chunk)], none);
  return number == nobodys ? none : number;
}

// --- What does not come

void LiveAllocations::forget(Number number) {
  all_[number].lives = false;
  unused_.push_back(number);
}

void LiveAllocations::unseen(Time then, const std::function<void(Allocation&)>& body) {
  for (const Request& request : unseen_) {
    if (all_[request.number].born >= then) break;
    body(all_[request.number]);
  }
}

void LiveAllocations::drop_unseen(Time then) {
  while (!unseen_.empty() && all_[unseen_.front().number].born < then) {
    forget(unseen_.front().number);
    unseen_.pop_front();
  }
}

}  // namespace vma::inline v1
