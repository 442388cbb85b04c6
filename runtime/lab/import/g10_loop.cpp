#include "lab/import/g10_loop.hpp"

#include "lab/import/g10_plan.hpp"
#include "lab/trace/closed_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace vma {
namespace {

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

}  // namespace

void add_training(EventOrder& order, const TrainingIteration& training, const TrainingLoop& loop) {
  Training(order, training, loop).run();
}

}  // namespace vma
