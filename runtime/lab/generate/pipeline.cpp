#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"
#include "lab/trace/event_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace vma {
namespace {

constexpr std::array pipeline_parameters{
    TraceParameter{"stages", 4, 1, 256, "GPUs, one stage each"},
    TraceParameter{"microbatches", 8, 1, 256, "parts of the batch of an iteration"},
    TraceParameter{"layers", 4, 1, 100, "layers of each stage"},
    TraceParameter{"iterations", 10, 1, 1e6, "how often the weights are changed"},
    TraceParameter{"activation_bytes", 64 << 20, 1, 1e13, "activations of a layer a microbatch"},
    TraceParameter{"weight_bytes", 256 << 20, 1, 1e13, "weights of a layer"},
    TraceParameter{"compute_us", 2000, 0, 1e9, "time of a layer for a microbatch, forward"},
    TraceParameter{"jitter", 0.1, 0, 10, "how much longer a step may take, as a share", false},
    hints_parameter};

/// One owner: the parameters of one workload, and how far it has been generated.
class Pipeline {
 public:
  Pipeline(const TraceValues& values, TraceRandom& random, EventOrder& order)
      : random_(&random),
        order_(&order),
        tasks_(order),
        stages_(values.whole("stages")),
        batches_(values.whole("microbatches")),
        layers_(values.whole("layers")),
        activation_bytes_(values.whole("activation_bytes")),
        compute_(std::chrono::microseconds(values.whole("compute_us"))),
        jitter_(values["jitter"]),
        hints_(values.whole("hints") == 1),
        weights_(order, 0, stages_ * layers_, values.whole("weight_bytes"), "weights"),
        next_object_(weights_.count()),
        stage_ends_(stages_) {}

  void run(std::uint64_t iterations) {
    weights_.allocate_all(Time(0));
    for (std::uint64_t iteration = 1; iteration <= iterations; ++iteration) {
      advance();
      TraceEvent mark = event_of(TraceEventKind::mark, 0);
      mark.tag = order_->intern(fmt::format("iteration {}", iteration));
      tasks_.at_end(mark, stage_ends_.front());
      run_iteration();
    }
    for (std::uint64_t layer = 0; layer < weights_.count(); ++layer)
      tasks_.at_end(event_of(TraceEventKind::free, layer), stage_ends_[layer / layers_]);
  }

 private:
  /// Nothing happens from now on before the earliest of the stages continues.
  void advance() {
    Time now = Time::max();
    for (const DeclaredTask& end : stage_ends_) now = std::min(now, end.end);
    order_->advance(now);
  }
  void run_iteration() {
    std::vector<DeclaredTask> handed(batches_);  // Per microbatch: what the next stage waits for.
    activations_.assign(batches_ * weights_.count(), 0);
    for (std::uint64_t stage = 0; stage < stages_; ++stage) {
      for (std::uint64_t batch = 0; batch < batches_; ++batch) {
        for (std::uint64_t layer = 0; layer < layers_; ++layer)
          forward(batch, stage * layers_ + layer, layer == 0 ? handed[batch] : DeclaredTask{});
        handed[batch] = stage_ends_[stage];
      }
    }
    handed.assign(batches_, {});
    for (std::uint64_t stage = stages_; stage-- > 0;) {
      for (std::uint64_t batch = 0; batch < batches_; ++batch) {
        for (std::uint64_t layer = layers_; layer-- > 0;)
          backward(batch, stage * layers_ + layer,
                   layer + 1 == layers_ ? handed[batch] : DeclaredTask{});
        handed[batch] = stage_ends_[stage];
      }
      for (std::uint64_t layer = 0; layer < layers_; ++layer) {
        step(stage, 1, {});
        access(stage * layers_ + layer, weight_bytes(), UseKind::read_write);
        announce(stage * layers_ + layer, weight_bytes(), length() + forward_start(0, layer),
                 change_start(layer));
      }
    }
  }

  /// Layers are numbered across the stages.
  void forward(std::uint64_t batch, std::uint64_t layer, const DeclaredTask& input) {
    const std::uint64_t stage = layer / layers_;
    std::uint64_t& own = activations_[batch * weights_.count() + layer];
    own = next_object_++;
    TraceEvent allocation = event_of(TraceEventKind::allocation, own);
    allocation.bytes = activation_bytes_;
    allocation.tag = order_->intern("activations");
    const DeclaredTask& before = stage_ends_[stage];
    tasks_.at_end(allocation, input.end > before.end ? input : before);
    step(stage, 1, input);
    access(layer, weight_bytes(), UseKind::read);
    if (layer > 0) access((&own)[-1], activation_bytes_, UseKind::read);
    access(own, activation_bytes_, UseKind::write);
    const Time now = forward_start(batch, layer % layers_);
    announce(layer, weight_bytes(),
             batch + 1 < batches_ ? forward_start(batch + 1, layer % layers_)
                                  : backward_start(0, layer % layers_),
             now);
    if (layer > 0)
      announce((&own)[-1], activation_bytes_, backward_start(batch, layer % layers_), now);
  }
  void backward(std::uint64_t batch, std::uint64_t layer, const DeclaredTask& gradients) {
    const std::uint64_t* const own = &activations_[batch * weights_.count() + layer];
    step(layer / layers_, 2, gradients);
    access(layer, weight_bytes(), UseKind::read);
    access(*own, activation_bytes_, UseKind::read);
    if (layer > 0) access(own[-1], activation_bytes_, UseKind::read_write);
    announce(layer, weight_bytes(),
             batch + 1 < batches_ ? backward_start(batch + 1, layer % layers_)
                                  : change_start(layer % layers_),
             backward_start(batch, layer % layers_));
    tasks_.at_end(event_of(TraceEventKind::free, *own), stage_ends_[layer / layers_]);
  }
  /// Declares the next task of the stage.
  void step(std::uint64_t stage, int times, const DeclaredTask& input) {
    const auto least = static_cast<double>(compute_.count()) * times;
    const Time compute(static_cast<std::int64_t>(least * (1 + jitter_ * random_->uniform())));
    DeclaredTask& end = stage_ends_[stage];
    const std::array after{end, input};
    end = tasks_.declare(task_event(compute, TracePlace(gpu(static_cast<int>(stage)))), after);
  }
  void access(std::uint64_t object, std::uint64_t bytes, UseKind use) {
    TraceEvent access = event_of(TraceEventKind::access, object);
    access.bytes = bytes;
    access.use = use;
    tasks_.access(access);
  }
  // When a stage does a step of its layers, numbered from 0, if it never waits: from the start of
  // the iteration.
  Time forward_start(std::uint64_t batch, std::uint64_t layer) const {
    return after(batch * layers_ + layer);
  }
  Time backward_start(std::uint64_t batch, std::uint64_t layer) const {
    return after(batches_ * layers_ + 2 * (batch * layers_ + layers_ - 1 - layer));
  }
  Time change_start(std::uint64_t layer) const { return after(3 * batches_ * layers_ + layer); }
  Time length() const { return change_start(layers_); }
  /// The time of so many steps forward.
  Time after(std::uint64_t steps) const { return compute_ * static_cast<std::int64_t>(steps); }

  std::uint64_t weight_bytes() const { return weights_.access(Time(0), 0).bytes; }
  /// With hints, the step declared last, which starts at `now`, announces the next use.
  void announce(std::uint64_t object, std::uint64_t bytes, Time next, Time now) {
    if (!hints_) return;
    Hint hint;
    hint.next_use = next - now;
    TraceEvent event = hint_event(hint);
    event.object = object;
    event.bytes = bytes;
    tasks_.hint(event);
  }
  static TraceEvent event_of(TraceEventKind kind, std::uint64_t object) {
    TraceEvent event;
    event.kind = kind;
    event.object = object;
    return event;
  }

  TraceRandom* random_;
  EventOrder* order_;
  ClosedLoop tasks_;
  std::uint64_t stages_, batches_, layers_;
  std::uint64_t activation_bytes_;
  Time compute_;
  double jitter_;
  bool hints_;
  ObjectSet weights_;
  std::uint64_t next_object_;
  std::vector<DeclaredTask> stage_ends_;    // The last task of each stage.
  std::vector<std::uint64_t> activations_;  // Of this iteration, by microbatch and layer.
};

/// The training of a model that is divided among GPUs, one stage each, as a closed loop.
///
/// Each stage has "layers" layers. In an iteration, each layer of each stage computes each
/// microbatch forward, then each backward; the gradients of a stage begin when it has computed all
/// microbatches forward. Every step is a task after the previous one on its stage. The first layer
/// of a stage also waits for the stage before it, and backward the last layer for the stage after
/// it. Forward, a layer reads its weights and the activations of the layer before, perhaps on
/// another GPU, and writes its own. Backward, which takes twice as long, it reads weights and its
/// activations, turns those of the layer before into their gradients, and frees its own. At the end
/// of an iteration each layer changes its weights. A mark begins each iteration. Each step takes
/// longer by a random share of up to "jitter".
///
/// With "hints", each step announces when its layer's weights are used next, and each step forward
/// when the activations that it reads are needed again. The stage counts its own steps until then,
/// without jitter and without waiting for other stages.
void generate_pipeline(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  Pipeline(values, random, order).run(values.whole("iterations"));
}

}  // namespace

TraceGenerator pipeline_generator() {
  return {"pipeline", "training of a model whose stages are on several GPUs", pipeline_parameters,
          generate_pipeline};
}

}  // namespace vma
