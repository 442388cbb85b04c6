#include "model/play.hpp"

#include "model/user.hpp"
#include "model/world.hpp"
#include "support/announce.hpp"
#include "support/plays.hpp"

#include <algorithm>
#include <numeric>

namespace vma {
namespace {

void play_in(World& world, PlayOutcome& outcome) {
  const ModelPlan& plan = world.plan();
  std::vector<std::unique_ptr<User>> users;
  for (int i = 0; i < plan.users; ++i) users.push_back(std::make_unique<User>(world, i));
  if (plan.users == 1) {
    users.front()->run();
  } else {
    std::vector<std::unique_ptr<Task>> tasks;
    for (const std::unique_ptr<User>& user : users) {
      tasks.push_back(world.executor().spawn("user", [&user] { user->run(); }));
    }
    for (const std::unique_ptr<Task>& task : tasks) task->join();
  }
  for (const std::unique_ptr<User>& user : users) user->add_to(outcome);
  users.clear();
  try {
    if (!world.failed()) world.check();
    world.end();
  } catch (const std::exception& error) {
    world.fail(error.what());
  }
  outcome.mismatch = world.mismatch();
}

}  // namespace

std::uint64_t PlayOutcome::total() const {
  return std::accumulate(operations.begin(), operations.end(), std::uint64_t{0});
}

PlayOutcome play(const ModelPlan& plan) {
  announce(describe(plan));
  PlayOutcome outcome;
  run_play(plan.threaded, {plan.seed, 64}, [&](SteppedExecutor* stepped) {
    // Created inside the play, because the machine has its own threads.
    World world(plan, stepped);
    play_in(world, outcome);
  });
  return outcome;
}

}  // namespace vma
