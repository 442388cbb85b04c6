#include "twin/twin_plan.hpp"

#include "support/test_run.hpp"

#include <fmt/format.h>

#include <array>

namespace vma {
namespace {

void draw_machine(TwinPlan& plan, std::mt19937_64& random) {
  switch (below(random, 4)) {
    case 0:
      plan.machine = "test-4";
      plan.gpus = {0, 1, 2, 3};
      break;
    case 1:
      plan.machine = "test-islands";
      if (below(random, 2) == 0) plan.gpus = {2, 3};
      break;
    default: break;
  }
  constexpr std::array<int, 8> queues = {8, 8, 8, 8, 32, 4, 2, 1};
  plan.hardware_queues = queues[below(random, queues.size())];
}

}  // namespace

TwinPlan TwinPlan::drawn(std::uint64_t seed) {
  TwinPlan plan;
  plan.seed = seed;
  std::mt19937_64 random(seed);
  draw_machine(plan, random);
  const auto one_in = [&](std::uint64_t count) { return below(random, count) == 0; };
  plan.yields_per_switch = 1u << (2 + below(random, 5));
  plan.writers = 1 + static_cast<int>(below(random, 4));
  plan.mixed_streams = one_in(3);
  plan.waves = one_in(2);
  plan.moves = 2 + static_cast<int>(below(random, 4));
  plan.hosts = !one_in(3);
  plan.cancels = one_in(2);
  plan.gate_limit = std::chrono::microseconds(std::array{15, 30, 100, 100, 300}[below(random, 5)]);
  plan.gate_retries = 1 + static_cast<int>(below(random, 3));
  TwinCompany& company = plan.company;
  company.captures = one_in(4);
  company.frees_plain = one_in(4);
  company.churns = one_in(4);
  company.pins = one_in(5);
  company.reads_only = one_in(5);
  company.host_access = one_in(4);
  company.holds = one_in(4);
  company.frees = one_in(5) && !company.captures;  // Programs that capture must not call vma::free.
  company.shuts_down = one_in(4);
  company.waits_across = one_in(3);
  plan.own_contexts = one_in(3);
  plan.prepares = one_in(3);
  return plan;
}

bool TwinPlan::suspends() const {
  return play_suspends(seed);
}

bool TwinPlan::attaches() const {
  return !suspends() || any_error || seed / 2 % 2 == 0 || machine == "test-islands";
}

std::string describe(const TwinPlan& plan) {
  const TwinCompany& company = plan.company;
  std::string with;
  const auto add = [&](bool present, const char* name) {
    if (present) with += fmt::format("{}{}", with.empty() ? ", with " : " and ", name);
  };
  add(company.captures, "captures");
  add(company.frees_plain, "plain frees");
  add(company.churns, "short-lived streams");
  add(company.pins, "pins");
  add(company.reads_only, "read-only scopes");
  add(company.host_access, "reads and writes");
  add(company.holds, "holds");
  add(company.frees, "frees in mid-move");
  add(company.shuts_down, "shutdown in mid-move");
  add(company.waits_across, "waits across streams");
  add(plan.prepares, "moves prepared");
  add(plan.suspends(), "suspensions");
  add(!plan.attaches(), "nothing attached");
  add(plan.own_contexts, "copies in contexts of the runtime's own");
  return fmt::format("seed {}, {}, {}, {} queues, {} writers{}{}, gate limit {} us{}", plan.seed,
                     plan.machine, plan.threaded ? "threaded" : "stepped", plan.hardware_queues,
                     plan.writers, plan.mixed_streams ? " on all kinds of streams" : "",
                     plan.waves ? " and waves" : "", plan.gate_limit.count(), with);
}

}  // namespace vma
