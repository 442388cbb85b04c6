#pragma once

#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Finds out which VMART_* variables of the environment make something fail, by trying without
/// them. Those to blame stay unset in this process. One thread.
class VariableBlame {
 public:
  /// Runs `body`, and again without each variable in turn where it throws an Error. Throws: the
  /// Error that no variable is to blame for.
  void run(const std::function<void()>& body);

  /// What went wrong, and which variable to correct.
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

}  // namespace vma
