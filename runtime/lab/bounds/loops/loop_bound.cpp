#include "lab/bounds/loops/loop_bound.hpp"

#include <algorithm>
#include <cmath>

namespace vma {
namespace {

constexpr std::uint32_t none = UINT32_MAX;
constexpr std::size_t stale_max = 80;  // Rounds that do not improve the bound.
constexpr double worth_it = 1e-5;      // Smaller improvements do not count.

}  // namespace

LoopBound::LoopBound(const LoopGraph& graph, const ReplayMachine& machine,
                     const LoopBoundLimits& limits)
    : graph_(graph),
      machine_(machine),
      limits_(limits),
      windows_(graph, machine),
      prices_(graph, machine, windows_),
      path_(graph, machine, windows_, prices_),
      loads_(graph, windows_),
      mean_(graph, windows_) {
  weights_.pairs.resize(windows_.size());
  weights_.accesses.resize(graph.access_tasks.size());
  weights_.task_parts.resize(graph.tasks.size() * windows_.parts());
  weights_.room.resize(graph.tasks.size());
  for (std::size_t link = 0; link < windows_.links(); ++link) {
    const double capacity = machine.links.capacity(static_cast<LinkId>(link));
    if (capacity > 0) byte_s_ = std::max(byte_s_, 1 / capacity);
  }
}

double LoopBound::critical_path_s() const {
  double longest = 0;
  for (const LoopTask& task : graph_.tasks) longest = std::max(longest, task.head_s + task.least_s);
  return longest;
}

/// Fictitious play: the weights follow what took longest in the mean of the answers so far, and
/// each answer is the cheapest at the weights so far (Robinson: An iterative method of solving a
/// game, Annals of Mathematics 54, 1951).
double LoopBound::search() {
  double best = critical_path_s();
  answer();
  std::size_t stale = 0;
  for (std::size_t round = 0; round < rounds() && stale < stale_max; ++round) {
    const double share = 2.0 / (static_cast<double>(round) + 2);
    mean_.mix(loads_, share);
    follow(share, static_cast<double>(round));
    price_room(share);
    const double bound = answer();
    stale = bound > best * (1 + worth_it) ? 0 : stale + 1;
    best = std::max(best, bound);
  }
  return best;
}

std::size_t LoopBound::rounds() const {
  const auto places = static_cast<double>(windows_.places());
  const double work = static_cast<double>(graph_.uses.size()) * places * places +
                      static_cast<double>(mean_.task_parts.size());
  return static_cast<std::size_t>(
      std::clamp(limits_.work_max / work, 1.0, static_cast<double>(limits_.rounds_max)));
}

/// The weighted sum at the present weights, which is a bound.
double LoopBound::answer() {
  prices_.set(weights_);
  loads_.clear();
  double sum = weights_.computing_s;
  for (std::size_t pair = 0; pair < windows_.size(); ++pair)
    sum += weights_.pairs[pair] * windows_.outside_s(pair);
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    const auto capacity = machine_.places[graph_.tasks[task].device].capacity_bytes;
    sum -= weights_.room[task] * static_cast<double>(capacity);
  }
  for (const LoopSegment& segment : graph_.segments) sum += path_(segment, loads_);
  return sum;
}

LoopBound::Part LoopBound::longest_part(std::uint32_t number) const {
  const LoopTask& task = graph_.tasks[number];
  Part longest{Kind::computing, 0, task.compute_s};
  for (std::uint32_t i = 0; i < task.accesses; ++i) {
    const std::uint32_t access = task.first_access + i;
    if (mean_.accesses[access] >= longest.seconds)
      longest = {Kind::access, access, mean_.accesses[access]};
  }
  for (std::uint32_t link = 0; link < windows_.parts(); ++link) {
    const double seconds = mean_.task_parts[number * windows_.parts() + link];
    if (seconds > longest.seconds) longest = {Kind::part, link, seconds};
  }
  return longest;
}

/// The longest chain at the mean of the answers so far.
LoopBound::Chain LoopBound::longest_chain() const {
  const std::size_t count = graph_.tasks.size();
  std::vector<double> ends(count);
  std::vector<std::uint32_t> befores(count, none);
  std::vector<Part> parts(count);
  std::uint32_t last = none;
  for (std::uint32_t task = 0; task < count; ++task) {
    double start = graph_.tasks[task].release_s;
    for (const std::uint32_t before : graph_.befores_of(graph_.tasks[task])) {
      if (ends[before] <= start) continue;
      start = ends[before];
      befores[task] = before;
    }
    parts[task] = longest_part(task);
    ends[task] = start + parts[task].seconds;
    if (last == none || ends[task] > ends[last]) last = task;
  }
  Chain chain;
  if (last == none) return chain;
  chain.seconds = ends[last];
  for (std::uint32_t task = last; task != none; task = befores[task]) {
    chain.tasks.push_back(task);
    chain.parts.push_back(parts[task]);
  }
  return chain;
}

/// Gives a share of the weights to what takes longest: evenly within a margin that shrinks.
void LoopBound::follow(double share, double round) {
  const std::vector<double> times = prices_.times(mean_);
  const Chain chain = longest_chain();
  double longest = chain.seconds;
  for (const double time : times) longest = std::max(longest, time);
  const double margin = longest * 0.05 / (1 + 0.2 * round);
  double sum = std::exp((chain.seconds - longest) / margin);
  const double of_chain = sum;
  std::vector<double> wanted(times.size());
  for (std::size_t pair = 0; pair < times.size(); ++pair) {
    wanted[pair] = std::exp((times[pair] - longest) / margin);
    sum += wanted[pair];
  }
  for (std::size_t pair = 0; pair < times.size(); ++pair)
    weights_.pairs[pair] += share * (wanted[pair] / sum - weights_.pairs[pair]);
  follow_chain(chain, share, of_chain / sum);
}

/// Raises the price of room where the mean of the answers has more bytes than room, and lowers it
/// elsewhere: by the time of a byte on the slowest link, divided among the tasks that lack room.
void LoopBound::price_room(double share) {
  std::vector<double> lie(graph_.chains, 0), over(graph_.tasks.size());
  std::size_t lacking = 0;
  for (std::size_t number = 0; number < graph_.tasks.size(); ++number) {
    const LoopTask& task = graph_.tasks[number];
    double& bytes = lie[task.chain];
    bytes -= mean_.lies_until[number];
    const auto capacity = static_cast<double>(machine_.places[task.device].capacity_bytes);
    const double used = bytes + mean_.lies_at[number];
    over[number] = capacity > 0 ? (used - capacity) / capacity : 0;
    lacking += over[number] > 0 ? 1 : 0;
    bytes += mean_.lies_after[number];
  }
  const double step = share * byte_s_ / static_cast<double>(std::max<std::size_t>(lacking, 1));
  for (std::size_t task = 0; task < over.size(); ++task)
    weights_.room[task] = std::max(weights_.room[task] + step * over[task], 0.0);
}

void LoopBound::follow_chain(const Chain& chain, double share, double weight) {
  for (auto* const sums : {&weights_.accesses, &weights_.task_parts})
    for (double& each : *sums) each *= 1 - share;
  weights_.computing_s *= 1 - share;
  if (chain.tasks.empty()) return;
  const double added = share * weight;
  weights_.computing_s += added * graph_.tasks[chain.tasks.back()].release_s;
  for (std::size_t i = 0; i < chain.tasks.size(); ++i) {
    const Part& part = chain.parts[i];
    if (part.kind == Kind::computing) weights_.computing_s += added * part.seconds;
    if (part.kind == Kind::access) weights_.accesses[part.number] += added;
    if (part.kind == Kind::part)
      weights_.task_parts[chain.tasks[i] * windows_.parts() + part.number] += added;
  }
}

}  // namespace vma
