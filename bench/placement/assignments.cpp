#include "bench/placement/assignments.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace vma {
namespace {

constexpr double every_one_max = 100'000;
constexpr int starts = 20;

/// The best assignments so far, best first.
class Podium {
 public:
  Podium(const Readings& readings, std::size_t blocks_max, const MachineCosts& costs,
         std::size_t wanted)
      : readings_(readings), blocks_max_(blocks_max), costs_(costs), wanted_(wanted) {}

  /// Rates an assignment, and keeps it if it is among the best. Returns its rate, 0 if it does not
  /// fit.
  double look(const Assignment& assignment) {
    for (const std::size_t gpu : assignment)
      if (static_cast<std::size_t>(std::ranges::count(assignment, gpu)) > blocks_max_) return 0;
    const double rate = foretold_rate(readings_, assignment, costs_);
    const bool known =
        std::ranges::any_of(best_, [&](const auto& each) { return each.second == assignment; });
    if (known) return rate;
    const auto after =
        std::ranges::find_if(best_, [&](const auto& each) { return each.first < rate; });
    best_.insert(after, {rate, assignment});
    if (best_.size() > wanted_) best_.pop_back();
    return rate;
  }
  std::vector<Assignment> best() const {
    std::vector<Assignment> assignments;
    for (const auto& each : best_) assignments.push_back(each.second);
    return assignments;
  }

 private:
  const Readings& readings_;
  const std::size_t blocks_max_;
  const MachineCosts& costs_;
  const std::size_t wanted_;
  std::vector<std::pair<double, Assignment>> best_;
};

/// Advances to the next assignment, read as a number whose digits are GPUs. Returns false after the
/// last one.
bool count_up(Assignment& assignment, std::size_t gpus) {
  for (std::size_t& gpu : assignment) {
    if (++gpu < gpus) return true;
    gpu = 0;
  }
  return false;
}

/// Moves one block or swaps two, as long as that improves the rate.
void climb(Assignment assignment, std::size_t gpus, Podium& podium) {
  double rate = podium.look(assignment);
  for (bool better = true; better;) {
    better = false;
    const auto try_one = [&](const Assignment& other) {
      const double its = podium.look(other);
      if (its <= rate) return;
      rate = its;
      assignment = other;
      better = true;
    };
    for (std::size_t block = 0; block < assignment.size(); ++block) {
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        Assignment other = assignment;
        other[block] = gpu;
        try_one(other);
      }
      for (std::size_t with = 0; with < block; ++with) {
        Assignment other = assignment;
        std::swap(other[block], other[with]);
        try_one(other);
      }
    }
  }
}

}  // namespace

Readings readings_of(const DriftLoad& load, std::size_t phase) {
  Readings readings;
  for (std::size_t reader = 0; reader < load.gpus; ++reader) {
    auto& row = readings.bytes.emplace_back();
    for (std::size_t block = 0; block < load.blocks; ++block)
      row.push_back(static_cast<double>(load.passes(phase, reader, block) * load.block_bytes));
  }
  return readings;
}

double foretold_rate(const Readings& readings, const Assignment& assignment,
                     const MachineCosts& costs) {
  double all = 0, slowest_seconds = 0;
  for (std::size_t reader = 0; reader < readings.bytes.size(); ++reader) {
    double seconds = 0;
    for (std::size_t block = 0; block < assignment.size(); ++block) {
      const double read = readings.bytes[reader][block];
      if (read <= 0) continue;
      all += read;
      seconds += read / costs.access_rate(PlaceId{static_cast<std::uint8_t>(reader)},
                                          PlaceId{static_cast<std::uint8_t>(assignment[block])});
    }
    slowest_seconds = std::max(slowest_seconds, seconds);
  }
  return slowest_seconds > 0 ? all / slowest_seconds : 0;
}

BestAssignments best_assignments(const Readings& readings, std::size_t gpus, std::size_t blocks_max,
                                 const MachineCosts& costs, std::size_t wanted,
                                 std::uint64_t seed) {
  const std::size_t blocks = readings.bytes.front().size();
  Podium podium(readings, blocks_max, costs, wanted);
  double count = 1;
  for (std::size_t block = 0; block < blocks; ++block) count *= static_cast<double>(gpus);
  const bool every_one = count <= every_one_max;
  Assignment assignment(blocks, 0);
  if (every_one) {
    do podium.look(assignment);
    while (count_up(assignment, gpus));
  } else {
    std::mt19937_64 random(seed);
    for (int start = 0; start < starts; ++start) {
      // Distributes blocks evenly, so that the start fits.
      for (std::size_t block = 0; block < blocks; ++block) assignment[block] = block % gpus;
      std::ranges::shuffle(assignment, random);
      climb(assignment, gpus, podium);
    }
  }
  return {podium.best(), every_one};
}

}  // namespace vma
