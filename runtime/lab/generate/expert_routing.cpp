#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vma {
namespace {

constexpr std::array moe_parameters{
    gpus_parameter,
    TraceParameter{"object_bytes", 32 << 20, 1, 1e13, "size of an expert's weights"},
    TraceParameter{"layers", 16, 1, 1e4, "layers"},
    TraceParameter{"experts", 64, 1, 1e5, "experts per layer"},
    TraceParameter{"chosen", 2, 1, 1e3, "experts that each token chooses"},
    TraceParameter{"tokens", 32, 1, 1e6, "tokens in a GPU's batch"},
    TraceParameter{"steps", 500, 1, 1e8, "steps"},
    TraceParameter{"step_us", 20'000, 1, 1e9, "time per step"},
    TraceParameter{"skew", 1, 0, 4, "exponent of Zipf's law; 0: uniform", false},
    TraceParameter{"alike", 0.3, 0, 1, "share of choices by global popularity", false},
    TraceParameter{"drift_steps", 50, 1, 1e8, "steps between drifts"},
    TraceParameter{"drift", 0.1, 0, 1, "share of the popular half that a drift replaces", false}};

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

/// Mixture of experts. In each step each GPU processes its own batch, layer by layer: each of its
/// tokens chooses "chosen" experts of the layer by Zipf's law, and the GPU reads the weights of
/// each chosen expert once, in full. Popularity differs by layer and GPU, since each GPU serves
/// other kinds of requests: with probability "alike" a token chooses by the layer's common
/// popularity instead. Every "drift_steps" steps, each expert in the more popular half swaps its
/// rank with a random one with probability "drift". An expert is an object numbered layer * experts
/// + expert; a step of a GPU is a task with a device.
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

}  // namespace

TraceGenerator moe_generator() {
  return {"moe", "mixture of experts: GPUs choose a few experts per token", moe_parameters,
          generate_moe};
}

}  // namespace vma
