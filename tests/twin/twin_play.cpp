#include "twin/twin_play.hpp"

#include "support/announce.hpp"
#include "support/plays.hpp"
#include "twin/twin_mover.hpp"
#include "twin/twin_users.hpp"
#include "twin/twin_world.hpp"
#include "twin/user_stream.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace vma {
namespace {

using User = void (*)(TwinWorld&, unsigned);

std::vector<User> users_of(const TwinPlan& plan) {
  std::vector<User> users(static_cast<std::size_t>(plan.writers), write_twins);
  const auto add = [&](bool present, User user) {
    if (present) users.push_back(user);
  };
  const TwinCompany& company = plan.company;
  add(plan.waves, write_waves);
  add(company.captures, capture_graphs);
  add(company.frees_plain, free_plain_memory);
  add(company.churns, use_new_streams);
  add(company.pins, pin_at_times);
  add(company.reads_only, forbid_writing_at_times);
  add(company.host_access, read_and_write_from_host);
  add(company.frees, free_what_moves);
  return users;
}

/// The runtime ends with work enqueued and a move in progress: everything launched finishes.
void shut_down_in_mid_move(TwinWorld& world) {
  std::mt19937_64 random(world.plan().seed);
  constexpr std::uint64_t plain_lines = 8;
  SimDriver& machine = world.machine();
  std::uint64_t* const array = world.array().array;
  std::vector<BoundStream> streams;
  std::vector<Address> plain;  // Plain memory, since the runtime's own is gone after the shutdown.
  for (const int gpu : world.plan().gpus) {
    streams.push_back(machine.create_stream(world.context(gpu), StreamKind::non_blocking));
    if (world.plan().attaches()) world.runtime().attach(TwinWorld::named(streams.back()));
    plain.push_back(machine.allocate_plain(world.context(gpu),
                                           plain_lines * twin_line_words * sizeof(std::uint64_t)));
    auto* words = static_cast<std::uint64_t*>(to_pointer(plain.back()));
    for (int i = 0; i < 3; ++i) {
      world.add(streams.back(), gpu, {words, words, plain_lines}, {random(), 4, 1});
    }
  }
  const Migration move = world.runtime().migrate_async(array, world.elsewhere(random, array));
  world.nap(std::chrono::nanoseconds(below(random, 60'000)));
  world.runtime().shutdown();
  if (!move.done()) world.fail("a move outlives its runtime");
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const TimePoint deadline = machine.clock().now() + std::chrono::seconds(20);
    if (!machine.wait_stream(streams[i], deadline)) world.fail("work stands after a shutdown");
    machine.free_plain(streams[i].context, plain[i]);
    machine.destroy_stream(streams[i]);
  }
}

/// If threads wait for each other nothing can be done: ends the process and says where.
void join(Task& task) {
  try {
    task.join();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
}

void move_beside_users(TwinWorld& world, TwinMover& migrator) {
  // A move needs an attached stream, and users attach theirs later.
  const UserStream first(world, world.plan().gpus.front(), UserStream::Kind::non_blocking);
  std::vector<std::unique_ptr<Task>> tasks;
  unsigned number = 0;
  for (const User user : users_of(world.plan())) {
    ++number;
    tasks.push_back(world.start("user", [&world, user, number] {
      const PermittedDriver::AsApplication application;
      user(world, number);
    }));
  }
  world.arm(true);
  tasks.push_back(world.start("moves", [&] {
    migrator.run();
    world.arm(false);
    world.finish();
  }));
  for (const std::unique_ptr<Task>& task : tasks) join(*task);
}

void play_in(TwinWorld& world, TwinOutcome& outcome) {
  const TwinPlan& plan = world.plan();
  TwinMover migrator(world);
  try {
    move_beside_users(world, migrator);
    if (world.problem().empty()) {
      // A check of suspension may still run in the background.
      const PermittedDriver::AsApplication application;
      outcome.words_different =
          world.compare_all(world.array()) + world.compare_all(world.beside());
      parts_of(world.runtime()).machinery->memory.chunks().slow_calls().await_empty();
      parts_of(world.runtime()).machinery->memory.check_invariants();
    }
    migrator.add_to(outcome);
    if (world.problem().empty() && plan.company.shuts_down) shut_down_in_mid_move(world);
    if (world.problem().empty()) world.end();
  } catch (const std::exception& error) {
    world.fail(error.what());
  }
  outcome.problem = world.problem();
}

}  // namespace

void TwinOutcome::operator+=(const TwinOutcome& other) {
  words_different += other.words_different;
  chunks_moved += other.chunks_moved;
  chunks_live += other.chunks_live;
  moves_done += other.moves_done;
  bytes_remapped += other.bytes_remapped;
  gates += other.gates;
  for (const auto& [kind, count] : other.moves_failed) moves_failed[kind] += count;
  for (const auto& [reason, count] : other.given_up) given_up[reason] += count;
}

TwinOutcome play(const TwinPlan& plan) {
  announce(describe(plan));
  TwinOutcome outcome;
  const SteppedOptions options{plan.seed, plan.yields_per_switch};
  outcome.interleaving = run_play(plan.threaded, options, [&](SteppedExecutor* stepped) {
    // Created inside the play, because the machine has its own threads.
    TwinWorld world(plan, stepped);
    play_in(world, outcome);
  });
  return outcome;
}

}  // namespace vma
