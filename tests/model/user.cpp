#include "model/user.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace vma {

std::uint64_t UserBlock::slot_bytes(std::size_t slot) const {
  return slot + 1 == places.size() ? size_bytes() - slot * chunk_bytes : chunk_bytes;
}

User::User(World& world, int number)
    : world_(world),
      number_(number),
      random_(world.plan().seed * 31 + static_cast<std::uint64_t>(number)) {}

void User::add_to(PlayOutcome& outcome) const {
  for (std::size_t kind = 0; kind < done_.operations.size(); ++kind) {
    outcome.operations[kind] += done_.operations[kind];
  }
  outcome.out_of_memory += done_.out_of_memory;
  outcome.refused += done_.refused;
}

Place User::draw_location() {
  const std::vector<Place>& places = world_.topology().places();
  return places[draw(places.size())];
}

User::Range User::draw_range(std::uint64_t end) {
  const std::uint64_t begin = draw(2) == 0 ? 0 : draw(end);
  return {begin, draw(2) == 0 ? end - begin : 1 + draw(end - begin)};
}

User::Blocks::iterator User::draw_block() {
  if (blocks_.empty()) return blocks_.end();
  return std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(draw(blocks_.size())));
}

void User::run() {
  try {
    {
      const Floor::Beside beside(world_.floor());
      open();
    }
    const int steps = world_.plan().operations / world_.plan().users;
    while (steps_ < steps && !world_.failed()) step();
    if (!world_.failed()) {
      const Floor::Beside beside(world_.floor());
      check_all();
    }
  } catch (const std::exception& error) {
    world_.fail(fmt::format("user {}, step {}: {}", number_, steps_, error.what()));
  }
  beside_.reset();
}

void User::open() {
  for (const DeviceId device : world_.topology().devices()) {
    streams_.push_back(runtime().make_stream(gpu(index(device))));
    world_.use_stream(streams_.back());
  }
  const Place home = host(0);
  result_ = runtime().alloc(1, home);
  world_.books().add(home, runtime().size(result_));
  ++world_.allocations;
}

void User::step() {
  const Operation operation = draw_operation();
  beside_.emplace(world_.floor());
  operate(operation);
  if (steps_ % 128 == 0) check_all();
  beside_.reset();
  ++done_.operations[static_cast<std::size_t>(operation)];
  ++steps_;
  check_after_step();
}

/// The books cannot be known while other users' operations are in progress. With several users, the
/// full check therefore runs only when one user is alone.
void User::check_after_step() {
  if (world_.plan().users > 1 && draw(4) != 0) return;
  const Floor::Alone alone(world_.floor());
  if (world_.plan().users > 1 || world_.draw().rests || draw(8) == 0) {
    world_.check();
  } else {
    world_.memory().registry().check_invariants();
  }
}

Operation User::draw_operation() {
  const auto& weights = world_.draw().weights;
  unsigned sum = 0;
  for (const unsigned weight : weights) sum += weight;
  std::uint64_t at = draw(sum);
  for (int kind = 0; kind < operation_kinds; ++kind) {
    if (at < weights[static_cast<std::size_t>(kind)]) return Operation{kind};
    at -= weights[static_cast<std::size_t>(kind)];
  }
  return Operation::alloc;
}

void User::operate(Operation operation) {
  switch (operation) {
    case Operation::alloc: return alloc();
    case Operation::free: return free(false);
    case Operation::free_async: return free(true);
    case Operation::migrate: return migrate(true);
    case Operation::migrate_range: return migrate(false);
    case Operation::migrate_group: return migrate_group();
    case Operation::kernel: return use_kernel();
    case Operation::host_view: return use_view();
    case Operation::reserve: return reserve();
    case Operation::trim: return trim();
    case Operation::misuse: return misuse();
    case Operation::write:
    case Operation::check: break;
  }
  const auto block = draw_block();
  if (block == blocks_.end()) return;
  const Range range = draw_range(block->second.size_bytes());
  if (operation == Operation::write) return write(block->second, range);
  check(block->second, range);
}

/// Runs an operation that may run out of memory. False if it did and the model allows that.
///
/// Memory that other users are just allocating or freeing counts as used, so with several users a
/// refusal is tried again while nobody else is active.
bool User::attempt(Place at, const std::function<std::uint64_t()>& need_bytes,
                   const std::function<void()>& body, bool cache_counts) {
  const auto refused = [&] {
    const bool allowed = world_.may_refuse(at, need_bytes(), cache_counts);
    try {
      body();
      return false;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      if (allowed) return true;
      // Host chunks that were made ahead meanwhile count too.
      if (cache_counts && world_.may_refuse(at, need_bytes(), cache_counts)) return true;
      throw Mismatch(fmt::format("room for it by the model's books, but: {}", error.what()));
    }
  };
  if (world_.plan().users == 1) {
    if (!refused()) return true;
    ++done_.out_of_memory;
    return false;
  }
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  beside_.reset();
  bool done = false;
  {
    const Floor::Alone alone(world_.floor());
    world_.come_to_rest();
    done = !refused();
  }
  beside_.emplace(world_.floor());
  if (!done) ++done_.out_of_memory;
  return done;
}

void User::alloc() {
  const Draw& limits = world_.draw();
  if (world_.allocations >= static_cast<int>(limits.allocations_max)) return free(false);
  const std::uint64_t granule = world_.topology().granularity();
  const std::uint64_t bytes = 1 + draw(draw(2) == 0 ? granule * 2 : granule * limits.granules_max);
  AllocOptions options;
  options.chunk_bytes = granule * draw(5);
  options.zeroed = draw(3) == 0;
  options.movable = draw(12) != 0;
  options.tag = "model";
  const Place at = draw_location();
  const Geometry geometry = plan_geometry(bytes, options.chunk_bytes, at, granule);
  UserBlock* made = nullptr;
  const bool done = attempt(
      at, [&] { return geometry.size_bytes(); }, [&] { made = &alloc_block(bytes, at, options); });
  if (!done) return;
  UserBlock& block = *made;
  if (block.size_bytes() != geometry.size_bytes()) throw Mismatch("size() is not what was planned");
  check_places(block);
  if (options.zeroed) {
    check(block, {0, block.size_bytes()});
  } else {
    fill(block);
  }
}

UserBlock& User::alloc_block(std::uint64_t bytes, Place at, const AllocOptions& options) {
  UserBlock block;
  block.pointer = runtime().alloc(bytes, at, options);
  const auto allocation = world_.memory().require(block.pointer, "model");
  if (allocation->size_bytes() < bytes) throw Mismatch("an allocation is smaller than asked for");
  block.words.resize(allocation->size_bytes() / sizeof(std::uint64_t));
  block.places.resize(allocation->geometry().slots, at);
  block.chunk_bytes = allocation->geometry().chunk_bytes;
  block.movable = options.movable;
  world_.books().add(at, block.size_bytes());
  ++world_.allocations;
  const bool known = std::ranges::any_of(
      blocks_, [&](const auto& it) { return it.second.pointer == block.pointer; });
  if (known) throw Mismatch(fmt::format("{} was given out twice", fmt::ptr(block.pointer)));
  return blocks_.emplace(++blocks_made_, std::move(block)).first->second;
}

void User::free(bool later) {
  const auto chosen = draw_block();
  if (chosen == blocks_.end()) return;
  const UserBlock& block = chosen->second;
  const int stream = block.busy >= 0 ? block.busy : static_cast<int>(draw(streams_.size()));
  const auto body = [&, freed = block.pointer] {
    if (later) {
      runtime().free_async(freed, streams_[static_cast<std::size_t>(stream)]);
    } else {
      runtime().free(freed);
    }
  };
  if (block.view) return expect_refusal(ErrorKind::pinned, "free of what is viewed", body);
  body();
  void* gone = block.pointer;
  forget(chosen, later);
  if (world_.plan().users > 1) return;  // Another user may have this address by now.
  expect_refusal(ErrorKind::unknown_pointer, "a freed pointer", [&] { runtime().where(gone); });
  expect_refusal(ErrorKind::unknown_pointer, "a double free", [&] { runtime().free(gone); });
}

void User::forget(Blocks::iterator chosen, bool later) {
  const UserBlock& block = chosen->second;
  for (std::size_t slot = 0; slot < block.places.size(); ++slot) {
    if (later) {
      world_.books().leave(block.places[slot], block.slot_bytes(slot));
    } else {
      world_.books().take(block.places[slot], block.slot_bytes(slot));
    }
  }
  --world_.allocations;
  blocks_.erase(chosen);
}

void User::migrate(bool whole) {
  const auto chosen = draw_block();
  if (chosen == blocks_.end()) return;
  UserBlock& block = chosen->second;
  const Place to = draw_location();
  Range slots{0, block.places.size()};
  if (!whole) slots = draw_range(block.places.size());
  if (!block.movable || block.view) {
    expect_refusal(ErrorKind::pinned, "a move of what is pinned",
                   [&] { runtime().migrate(block.pointer, to); });
  } else {
    attempt(
        to,
        [&] {
          return need_bytes({&block, slots, to});
        },
        [&] { migrate_slots(block, slots, to, whole); });
  }
  check_places(block);
}

void User::migrate_slots(UserBlock& block, Range slots, Place to, bool whole) {
  MigrateOptions options;
  options.reserve_first = draw(2) == 0;
  options.nothing_runs = draw(4) == 0;
  if (options.nothing_runs) wait_for(block);
  // Any bytes of the first and the last slot will do: a range is rounded outwards to slots.
  const std::uint64_t begin = slots.begin * block.chunk_bytes + draw(block.slot_bytes(slots.begin));
  const std::size_t last = slots.begin + slots.size - 1;
  std::uint64_t end = last * block.chunk_bytes + 1 + draw(block.slot_bytes(last));
  if (end <= begin) end = begin + 1;
  try {
    const MigrationReport report =
        whole ? runtime().migrate(block.pointer, to, options)
              : runtime().migrate(block.pointer, begin, end - begin, to, options);
    note_moves(block, slots, to, report.bytes_moved);
    if (report.outcome != Outcome::done || report.chunks != static_cast<int>(slots.size)) {
      throw Mismatch(fmt::format("a migration of {} slots reports {}", slots.size, report.chunks));
    }
    for (std::uint64_t slot = slots.begin; slot <= last; ++slot) {
      if (block.places[slot] != to) throw Mismatch("a migration that was done has not moved all");
    }
  } catch (const Error& error) {
    if (error.report() == nullptr) throw Mismatch(fmt::format("without report: {}", error.what()));
    note_moves(block, slots, to, error.report()->bytes_moved);
    if (options.reserve_first && error.report()->bytes_moved != 0) {
      throw Mismatch(fmt::format("moved although it had no room: {}", error.what()));
    }
    throw;
  }
}

std::uint64_t User::need_bytes(const Share& share) const {
  std::uint64_t need = 0;
  for (std::uint64_t slot = share.slots.begin; slot < share.slots.begin + share.slots.size;
       ++slot) {
    need += share.block->places[slot] == share.to ? 0 : share.block->slot_bytes(slot);
  }
  return need;
}

/// Of different blocks, which may move.
std::vector<User::Share> User::draw_shares() {
  constexpr std::uint64_t shares_max = 5;
  std::vector<Share> shares;
  std::map<Place, std::uint64_t> need;
  for (std::uint64_t i = 1 + draw(shares_max); i > 0; --i) {
    const auto chosen = draw_block();
    if (chosen == blocks_.end()) break;
    UserBlock& block = chosen->second;
    const bool known =
        std::ranges::any_of(shares, [&](const Share& share) { return share.block == &block; });
    if (known || !block.movable || block.view) continue;
    shares.push_back({&block, draw_range(block.places.size()), draw_location()});
    need[shares.back().to] += need_bytes(shares.back());
  }
  for (Share& share : shares) {
    // What other users allocate meanwhile is unknown.
    share.may_be_full =
        world_.plan().users > 1 || world_.may_refuse(share.to, need[share.to], false);
  }
  return shares;
}

/// Moves parts of several blocks with one call; each moves or is refused for itself.
void User::migrate_group() {
  const std::vector<Share> shares = draw_shares();
  MigrateOptions options;
  options.reserve_first = draw(2) == 0;
  options.nothing_runs = draw(4) == 0;
  std::vector<MoveRequest> requests;
  for (const auto& [block, slots, to, may_be_full] : shares) {
    if (options.nothing_runs) wait_for(*block);
    const std::size_t last = slots.begin + slots.size - 1;
    requests.push_back({block->pointer, to, slots.begin * block->chunk_bytes,
                        (last - slots.begin) * block->chunk_bytes + block->slot_bytes(last)});
  }
  try {
    note_group(shares, runtime().migrate(requests, options));
  } catch (const Error& error) {
    if (error.group() == nullptr) throw Mismatch(fmt::format("without reports: {}", error.what()));
    note_group(shares, *error.group());
  }
}

void User::note_group(const std::vector<Share>& shares, const GroupReport& group) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& [block, slots, to, may_be_full] = shares[i];
    const auto& [request, report, error] = group.requests.at(i);
    note_moves(*block, slots, to, report.bytes_moved);
    const bool there = need_bytes(shares[i]) == 0;
    if (there != (report.outcome == Outcome::done) || there != !error) {
      throw Mismatch(fmt::format("request {} is {}at its target, but: {}", i, there ? "" : "not ",
                                 error ? error->what() : "done"));
    }
    if (!error) continue;
    if (error->kind() != ErrorKind::out_of_memory || !may_be_full) {
      throw Mismatch(fmt::format("request {} could have moved: {}", i, error->what()));
    }
    ++done_.out_of_memory;
  }
  for (const Share& share : shares) check_places(*share.block);
}

/// Records what `where` says has moved, if the report allows it.
void User::note_moves(UserBlock& block, Range slots, Place to, std::uint64_t moved_bytes) {
  std::uint64_t moved = 0;
  for (const Extent& extent : runtime().where(block.pointer)) {
    for (std::uint64_t at = extent.offset; at < extent.offset + extent.bytes;
         at += block.chunk_bytes) {
      const std::size_t slot = at / block.chunk_bytes;
      if (extent.at == block.places[slot]) continue;
      if (extent.at != to || slot < slots.begin || slot >= slots.begin + slots.size) {
        throw Mismatch(
            fmt::format("slot {} is at {}, where nobody sent it", slot, to_string(extent.at)));
      }
      world_.books().move(block.places[slot], to, block.slot_bytes(slot));
      block.places[slot] = to;
      moved += block.slot_bytes(slot);
    }
  }
  if (moved != moved_bytes) {
    throw Mismatch(fmt::format("{} bytes moved, the report says {}", moved, moved_bytes));
  }
  // A hold waits for all work submitted before it. A suspension does not: that goes on afterwards.
  if (moved > 0 && !world_.plan().suspends()) block.busy = -1;
}

}  // namespace vma
