#include "lab/generate/expert_routing.hpp"

#include "lab/generate/zipf.hpp"

#include <algorithm>
#include <vector>

namespace vma {
namespace {

/// The popularity of one layer's experts: in common, and for each GPU.
class Layer {
 public:
  Layer(const TraceValues& values, TraceRandom& random) : experts_(values.whole("experts")) {
    for (std::uint64_t user = 0; user <= values.whole("gpus"); ++user) {
      popular_.emplace_back(experts_, values["skew"], random);
    }
  }

  /// Returns the distinct experts that the batch of a GPU chooses, in ascending order.
  std::vector<std::uint64_t> choose(std::uint64_t gpu, std::uint64_t choices, double alike,
                                    TraceRandom& random) const {
    std::vector<std::uint64_t> chosen;
    for (std::uint64_t choice = 0; choice < choices; ++choice) {
      const Popularity& by = random.chance(alike) ? popular_.front() : popular_[gpu + 1];
      chosen.push_back(by.draw(random));
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return chosen;
  }
  void drift(double probability, TraceRandom& random) {
    for (Popularity& one : popular_) one.drift((experts_ + 1) / 2, probability, random);
  }

 private:
  std::uint64_t experts_;
  std::vector<Popularity> popular_;  // The common one, then one per GPU.
};

}  // namespace

void generate_moe(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  const std::uint64_t gpus = values.whole("gpus"), layers = values.whole("layers");
  const std::uint64_t experts = values.whole("experts");
  const std::uint64_t choices = values.whole("tokens") * values.whole("chosen");
  const ObjectSet weights(order, 0, layers * experts, values.whole("object_bytes"), "experts");
  std::vector<Layer> model;
  for (std::uint64_t layer = 0; layer < layers; ++layer) model.emplace_back(values, random);
  const Time step_time = std::chrono::microseconds(values.whole("step_us"));
  const Time layer_time = step_time / static_cast<std::int64_t>(layers);
  weights.allocate_all(Time(0));
  Time now{0};
  std::uint32_t task = 0;
  for (std::uint64_t step = 0; step < values.whole("steps"); ++step, now += step_time) {
    if (step > 0 && step % values.whole("drift_steps") == 0) {
      for (Layer& layer : model) layer.drift(values["drift"], random);
    }
    order.advance(now);
    for (std::uint64_t device = 0; device < gpus; ++device) {
      ++task;
      for (std::uint64_t layer = 0; layer < layers; ++layer) {
        const Time begin = now + layer_time * static_cast<std::int64_t>(layer);
        for (const std::uint64_t expert :
             model[layer].choose(device, choices, values["alike"], random)) {
          TraceEvent access = weights.access(begin, layer * experts + expert);
          access.duration = layer_time;
          access.task = task;
          access.at = TracePlace(gpu(static_cast<int>(device)));
          order.add(access);
        }
      }
    }
  }
  weights.free_all(now);
}

}  // namespace vma
