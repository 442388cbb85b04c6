#include "lab/import/g10_plan.hpp"

#include <algorithm>
#include <map>

namespace vma {

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

}  // namespace vma
