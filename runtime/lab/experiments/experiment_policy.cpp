#include "lab/experiments/experiment_policy.hpp"

#include "scheduling/policy_library.hpp"

#include <utility>

namespace vma {

std::unique_ptr<Policy> make_policy(const Experiment& experiment, const std::string& text) {
  const auto library = experiment.libraries.find(text);
  if (library == experiment.libraries.end()) return load_policy(text);
  PolicyText split = split_policy_text(text);
  split.path = library->second;
  return load_library_policy(split);
}

}  // namespace vma
