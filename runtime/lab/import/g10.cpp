#include "lab/import/trace_formats.hpp"

#include "lab/import/g10_kernels.hpp"
#include "lab/import/g10_loop.hpp"
#include "lab/trace/event_order.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::array g10_parameters{
    TraceParameter{"iterations", 2, 1, 60e3, "how often the kernels run"},
    TraceParameter{"stages", 0, 0, 1000, "GPUs in a pipeline; 0: name no device"}, closed_parameter,
    TraceParameter{
        "microbatches", 0, 0, 1000,
        "microbatches of an iteration of a closed loop; 0: 4 if there are several stages, "
        "else 1"},
    hints_parameter};

/// Writes the events of the kernels in sequence.
class Iterations {
 public:
  Iterations(EventOrder& order, const TrainingIteration& training, bool staged)
      : order_(&order), training_(&training), staged_(staged) {}

  void run(std::uint64_t iteration) {
    const std::vector<TrainingKernel>& kernels = training_->kernels;
    TraceEvent mark = event(TraceEventKind::mark, 0);
    mark.tag = order_->intern(fmt::format("iteration {}", iteration));
    order_->add(mark);
    for (std::size_t number = 0; number < kernels.size(); ++number) {
      order_->advance(now_);
      ++task_;
      allocate(kernels[number], number, iteration == 1);
      access(kernels[number]);
      now_ += kernels[number].duration;
      free(kernels[number], number);
    }
  }
  void free_weights() {
    for (const std::uint64_t weight : training_->weights_used())
      order_->add(event(TraceEventKind::free, weight));
  }

 private:
  TraceEvent event(TraceEventKind kind, std::uint64_t object) const {
    TraceEvent event;
    event.time = now_;
    event.kind = kind;
    event.object = object;
    return event;
  }
  void allocate(const TrainingKernel& kernel, std::size_t number, bool first_iteration) {
    for (const auto& [object, use] : kernel.uses) {
      const TrainedTensor& tensor = training_->tensors.at(object);
      if (tensor.first != number || (tensor.weight && !first_iteration)) continue;
      TraceEvent allocation = event(TraceEventKind::allocation, object);
      allocation.bytes = tensor.bytes;
      allocation.tag = order_->intern(tensor.weight ? "weights" : "tensors");
      order_->add(allocation);
    }
  }
  void access(const TrainingKernel& kernel) {
    for (const auto& [object, use] : kernel.uses) {
      TraceEvent access = event(TraceEventKind::access, object);
      access.bytes = training_->tensors.at(object).bytes;
      access.use = use;
      access.duration = kernel.duration;
      access.task = task_;
      if (staged_) access.at = TracePlace(gpu(kernel.stage));
      order_->add(access);
    }
  }
  void free(const TrainingKernel& kernel, std::size_t number) {
    for (const auto& [object, use] : kernel.uses) {
      const TrainedTensor& tensor = training_->tensors.at(object);
      if (tensor.last == number && !tensor.weight) {
        order_->add(event(TraceEventKind::free, object));
      }
    }
  }

  EventOrder* order_;
  const TrainingIteration* training_;
  bool staged_;
  Time now_{0};
  std::uint32_t task_ = 0;
};

/// Returns the kernels file and the tensor table. Throws: Error{invalid_argument} if one is
/// missing.
std::vector<std::string> g10_files(const std::string& kernels) {
  return {kernels, tensors_path(kernels)};
}

/// Training iterations as traced by G10: a JSON-lines file NAME_kernels.jsonl with one kernel per
/// line, {"k","name","us","in","out"}, where "in" and "out" list tensor numbers; and next to it
/// NAME_tensors.csv: tensor,is_weight,bytes. Both may be compressed.
///
/// The kernels run in sequence, "iterations" times. Each is a task, numbered from 1. Over its
/// measured time it passes once over each of its tensors: it reads those in "in", writes those in
/// "out", and does both for those in both. Weights have the tag "weights" and live from their first
/// use to the end; other tensors live from their first to their last use in each iteration. A mark
/// begins each iteration. With "stages" above 0 the kernels of an iteration are split into that
/// many parts of equal time, one per GPU, like a pipeline; with 0 the trace names no device. A
/// kernel with a tensor that is missing in the table or has no bytes is a bad line.
///
/// In a closed loop, a kernel follows the previous one of its microbatch, and the previous one on
/// its stage: a stage runs the microbatches in order, and an iteration follows the whole previous
/// one, which has changed the weights. Each microbatch has its own tensors of its share of the
/// bytes, and its kernels take its share of the time; it passes once over each weight. So the
/// weights are read and written as often as there are microbatches. With "hints", each kernel
/// announces when each of its tensors is used next, and by which stage, as a compiler knows it that
/// has measured the kernels: a `TrainingPlan`. A weight is an object with the
/// tensor's number, and every other tensor is a new object each time. In an open loop, every tensor
/// is an object with its number, and kernels begin at the times at which they would if memory never
/// delayed one.
void convert_g10(const ConvertInput& input, EventOrder& order) {
  const std::uint64_t stages = input.values.whole("stages");
  const std::uint64_t iterations = input.values.whole("iterations");
  const TrainingIteration training = read_iteration(input, stages);
  if (input.values.whole("closed") == 1) {
    const std::uint64_t given = input.values.whole("microbatches");
    const std::uint64_t microbatches = given > 0 ? given : stages > 1 ? 4 : 1;
    return add_training(order, training,
                        {iterations, microbatches, stages > 0, input.values.whole("hints") == 1});
  }
  Iterations open(order, training, stages > 0);
  for (std::uint64_t number = 1; number <= iterations; ++number) open.run(number);
  open.free_weights();
}

}  // namespace

TraceFormat g10_format() {
  return {"g10",
          "kernels and tensors of training: *_kernels.jsonl with *_tensors.csv",
          "derived from platformxlab/G10",
          "Apache-2.0",
          g10_parameters,
          convert_g10,
          g10_files};
}

}  // namespace vma
