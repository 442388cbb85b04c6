#include "lab/policies/lab_policies.hpp"

#include "placement/weighing/chunk_worth.hpp"

#include <cmath>
#include <map>

namespace vma::inline v1 {
namespace {

/// One step of SplitMix64: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// Rule: a remote use whose penalty is p seconds brings the chunk to the GPU that made it with
/// probability 1 - exp(-p / (2 x cost of the move)): for small p that is p / (2 x cost). The only
/// state is how far the chunk has come towards a threshold, which is drawn for each chunk and move
/// from the exponential distribution of mean 2 x cost; that is the same as a flip at each use. Uses
/// by other GPUs subtract nothing. The draw depends on the seed, the chunk's number and how often
/// it was moved, not on the order of calls.
///
/// From: J. Westbrook, "Randomized Algorithms for Multiprocessor Page Migration", SIAM J. Comput.
/// 23(5), 1994: 3-competitive in any metric against an adaptive adversary.
class CoinFlip : public Policy {
 public:
  explicit CoinFlip(const PolicyValues& values)
      : seed_(values.count("seed")),
        multiple_(values["multiple"]),
        stall_weight_(values["stall_weight"]) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_gone(ChunkId chunk) override { ways_.erase(chunk); }

 private:
  struct Way {
    std::uint32_t generation = 0;
    std::uint32_t draw = 0;  // How many thresholds were drawn in this generation.
    double come = 0;         // Progress to `threshold`, in units of `multiple` x cost.
    double threshold = 0;
  };
  void draw(ChunkId chunk, Way& way) const;

  const std::uint64_t seed_;
  const double multiple_, stall_weight_;
  std::map<ChunkId, Way> ways_;  // Of chunks that were used remotely.
};

void CoinFlip::draw(ChunkId chunk, Way& way) const {
  const std::uint64_t number =
      (std::uint64_t{way.generation} << 32) | static_cast<std::uint32_t>(chunk);
  const std::uint64_t drawn = mixed(mixed(mixed(seed_) ^ number) + way.draw++);
  const double uniform = (static_cast<double>(drawn >> 11) + 0.5) * 0x1p-53;  // Never 0 nor 1.
  way.come = 0;
  way.threshold = -std::log(uniform);
}

void CoinFlip::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  const MachineCosts& costs = snapshot.costs();
  if (use.hint != nullptr || !may_move(row) || row.at == use.device) return;
  if (!costs.reaches(use.device, row.at) || !can_lie(snapshot, use.chunk, use.device)) return;
  const double penalty = saved_seconds(costs, use.device, row.at, use.device, use.bytes());
  if (penalty <= 0) return;
  const double cost = move_seconds(costs, row.at, use.device, row.bytes, stall_weight_);
  Way& way = ways_[use.chunk];
  if (way.threshold == 0 || way.generation != row.generation) {
    way = {row.generation, 0, 0, 0};
    draw(use.chunk, way);
  }
  way.come += penalty / (multiple_ * cost);
  if (way.come < way.threshold) return;
  draw(use.chunk, way);  // The coin was flipped; if the move is not made, it is flipped again.
  if (snapshot.place(use.device).free_bytes() < row.bytes) return;
  plan.move(use.chunk, use.device, multiple_ * cost - cost,
            "the coin fell for " + name_of(snapshot, use.device) + ": a use cost " +
                time_text(penalty) + " more than there, the move costs " + time_text(cost));
}

}  // namespace

PolicyKind coin_flip_kind() {
  using Type = PolicyParameter::Type;
  return {"coin_flip",
          "Westbrook, SIAM J. Comput. 23(5), 1994",
          {{"multiple", Type::number, 2, 0.01, 1000,
            "remote penalty, in multiples of the move's cost, that on average triggers a move"},
           {"seed", Type::count, 1, 0, 1e15, "of the coin"},
           {"stall_weight", Type::number, 1, 0, 100,
            "weight of a second during which a move stops the program's streams"}},
          [](const PolicyValues& values) -> std::unique_ptr<Policy> {
            return std::make_unique<CoinFlip>(values);
          }};
}

}  // namespace vma::inline v1
