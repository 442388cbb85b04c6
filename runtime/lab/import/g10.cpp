#include "lab/import/g10.hpp"

#include "lab/import/g10_kernels.hpp"
#include "lab/import/g10_loop.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

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

}  // namespace

std::vector<std::string> g10_files(const std::string& kernels) {
  return {kernels, tensors_path(kernels)};
}

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

}  // namespace vma
