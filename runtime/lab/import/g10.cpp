#include "lab/import/g10_kernels.hpp"
#include "lab/import/trace_formats.hpp"
#include "lab/trace/event_order.hpp"

#include <vma/snapshot.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace vma {
namespace {

struct TrainingLoop {
  std::uint64_t iterations = 1;
  std::uint64_t microbatches = 1;  ///< At least 1.
  bool staged = false;             ///< Each stage is a GPU.
  bool hints = false;              ///< Kernels announce the next use of their tensors.
};

/// When each kernel of an iteration starts if no access takes longer than its kernel: what a
/// compiler knows that has measured the kernels, as G10's does. The microbatches follow each other
/// as in `add_training`.
class TrainingPlan {
 public:
  /// Requires: the iteration outlives it.
  TrainingPlan(const TrainingIteration& training, std::uint64_t microbatches);

  struct NextUse {
    Time after{0};  ///< From the start of the kernel.
    int stage = 0;
  };
  /// The next use of a weight after this kernel; in the last kernels of an iteration it is one of
  /// the next iteration.
  NextUse next_of_weight(std::uint64_t tensor, std::uint64_t microbatch, std::size_t kernel) const;
  /// The next use of another tensor in the same microbatch. Requires: the kernel uses it, and is
  /// not the last one that does.
  NextUse next_of_tensor(std::uint64_t tensor, std::uint64_t microbatch, std::size_t kernel) const;

 private:
  struct Use {
    Time start{0};
    int stage = 0;
  };
  Time start(std::uint64_t microbatch, std::size_t kernel) const {
    return starts_[microbatch * training_->kernels.size() + kernel];
  }

  const TrainingIteration* training_;
  std::vector<Time> starts_;  // By microbatch and kernel, from the start of the iteration.
  Time length_{0};
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> kernels_;  // Of each tensor.
  std::unordered_map<std::uint64_t, std::vector<Use>> uses_;  // Of each weight, by start.
};

TrainingPlan::TrainingPlan(const TrainingIteration& training, std::uint64_t microbatches)
    : training_(&training) {
  const std::vector<TrainingKernel>& kernels = training.kernels;
  for (std::size_t number = 0; number < kernels.size(); ++number)
    for (const auto& [tensor, use] : kernels[number].uses) kernels_[tensor].push_back(number);
  std::map<int, Time> stage_ends;
  for (std::uint64_t batch = 0; batch < microbatches; ++batch) {
    Time now{0};
    for (std::size_t number = 0; number < kernels.size(); ++number) {
      const TrainingKernel& kernel = kernels[number];
      const bool enters = number == 0 || kernels[number - 1].stage != kernel.stage;
      if (enters) now = std::max(now, stage_ends[kernel.stage]);
      starts_.push_back(now);
      for (const auto& [tensor, use] : kernel.uses)
        if (training.tensors.at(tensor).weight) uses_[tensor].push_back({now, kernel.stage});
      now += kernel.duration / static_cast<std::int64_t>(microbatches);
      stage_ends[kernel.stage] = now;
    }
    length_ = std::max(length_, now);
  }
  for (auto& [weight, uses] : uses_) std::ranges::stable_sort(uses, {}, &Use::start);
}

TrainingPlan::NextUse TrainingPlan::next_of_weight(std::uint64_t tensor, std::uint64_t microbatch,
                                                   std::size_t kernel) const {
  const Time now = start(microbatch, kernel);
  const std::vector<Use>& uses = uses_.at(tensor);
  const auto next = std::ranges::upper_bound(uses, now, {}, &Use::start);
  if (next != uses.end()) return {next->start - now, next->stage};
  return {length_ - now + uses.front().start, uses.front().stage};
}

TrainingPlan::NextUse TrainingPlan::next_of_tensor(std::uint64_t tensor, std::uint64_t microbatch,
                                                   std::size_t kernel) const {
  const std::vector<std::size_t>& kernels = kernels_.at(tensor);
  const std::size_t next = *std::ranges::upper_bound(kernels, kernel);
  return {start(microbatch, next) - start(microbatch, kernel), training_->kernels[next].stage};
}

class Training {
 public:
  Training(EventOrder& order, const TrainingIteration& training, const TrainingLoop& loop)
      : order_(&order),
        tasks_(order),
        training_(&training),
        loop_(loop),
        plan_(training, loop.microbatches) {
    for (const auto& [tensor, about] : training.tensors)
      objects_end_ = std::max(objects_end_, tensor + 1);
  }

  void run() {
    for (std::uint64_t iteration = 1; iteration <= loop_.iterations; ++iteration) {
      const DeclaredTask before = last_;
      order_->advance(before.end);
      TraceEvent mark;
      mark.kind = TraceEventKind::mark;
      mark.tag = order_->intern(fmt::format("iteration {}", iteration));
      tasks_.at_end(mark, before);
      stage_ends_.clear();
      for (std::uint64_t batch = 0; batch < loop_.microbatches; ++batch) {
        last_ = batch == 0 ? before : DeclaredTask{};  // The others follow the first one.
        run_microbatch(batch, batch == 0 && iteration == 1);
      }
    }
    for (const std::uint64_t weight : training_->weights_used()) free(weight);
  }

 private:
  /// The kernels of a microbatch run one after the other; each stage takes one microbatch at a
  /// time.
  void run_microbatch(std::uint64_t batch, bool first) {
    objects_.clear();
    for (std::size_t number = 0; number < training_->kernels.size(); ++number) {
      const TrainingKernel& kernel = training_->kernels[number];
      std::array<DeclaredTask, 2> after{last_};
      const bool enters = number == 0 || training_->kernels[number - 1].stage != kernel.stage;
      if (enters) after[1] = stage_ends_[kernel.stage];
      if (after[0].number == after[1].number) after[1] = {};
      const bool later = after[1].end > after[0].end;
      allocate(kernel, number, first, after[later ? 1 : 0]);
      const auto batches = static_cast<std::int64_t>(loop_.microbatches);
      last_ =
          tasks_.declare(task_event(kernel.duration / batches,
                                    loop_.staged ? TracePlace(gpu(kernel.stage)) : TracePlace()),
                         after);
      for (const auto& [tensor, use] : kernel.uses) access(tensor, use);
      if (loop_.hints)
        for (const auto& [tensor, use] : kernel.uses) announce(tensor, batch, number);
      stage_ends_[kernel.stage] = last_;
      for (const auto& [tensor, use] : kernel.uses) {
        const TrainedTensor& about = training_->tensors.at(tensor);
        if (about.last == number && !about.weight) free(objects_.at(tensor));
      }
    }
  }
  void allocate(const TrainingKernel& kernel, std::size_t number, bool first,
                const DeclaredTask& after) {
    for (const auto& [tensor, use] : kernel.uses) {
      const TrainedTensor& about = training_->tensors.at(tensor);
      if (about.first != number || (about.weight && !first)) continue;
      TraceEvent allocation;
      allocation.kind = TraceEventKind::allocation;
      allocation.object = about.weight ? tensor : objects_[tensor] = objects_end_++;
      allocation.bytes = bytes_of(about);
      allocation.tag = order_->intern(about.weight ? "weights" : "tensors");
      tasks_.at_end(allocation, after);
    }
  }
  void access(std::uint64_t tensor, UseKind use) {
    const TrainedTensor& about = training_->tensors.at(tensor);
    TraceEvent access;
    access.object = about.weight ? tensor : objects_.at(tensor);
    access.bytes = bytes_of(about);
    access.use = use;
    tasks_.access(access);
  }
  /// When the tensor is used after this kernel, the one declared last.
  void announce(std::uint64_t tensor, std::uint64_t batch, std::size_t kernel) {
    const TrainedTensor& about = training_->tensors.at(tensor);
    if (!about.weight && about.last == kernel) return;
    const TrainingPlan::NextUse next = about.weight ? plan_.next_of_weight(tensor, batch, kernel)
                                                    : plan_.next_of_tensor(tensor, batch, kernel);
    Hint hint;
    hint.next_use = next.after;
    TraceEvent event = hint_event(hint);
    event.object = about.weight ? tensor : objects_.at(tensor);
    event.bytes = bytes_of(about);
    if (loop_.staged) event.at = TracePlace(gpu(next.stage));
    tasks_.hint(event);
  }
  void free(std::uint64_t object) {
    TraceEvent free;
    free.kind = TraceEventKind::free;
    free.object = object;
    tasks_.at_end(free, last_);
  }
  /// Microbatches share the weights and divide everything else.
  std::uint64_t bytes_of(const TrainedTensor& tensor) const {
    const std::uint64_t parts = tensor.weight ? 1 : loop_.microbatches;
    return (tensor.bytes + parts - 1) / parts;
  }

  EventOrder* order_;
  ClosedLoop tasks_;
  const TrainingIteration* training_;
  TrainingLoop loop_;
  TrainingPlan plan_;
  std::uint64_t objects_end_ =
      0;  // The next number: a tensor is another object in each microbatch.
  std::unordered_map<std::uint64_t, std::uint64_t> objects_;  // Of this microbatch, by tensor.
  std::map<int, DeclaredTask> stage_ends_;                    // The last task of each stage.
  DeclaredTask last_;
};

/// Adds the iterations as a closed loop, as `convert_g10` describes it.
void add_training(EventOrder& order, const TrainingIteration& training, const TrainingLoop& loop) {
  Training(order, training, loop).run();
}

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
