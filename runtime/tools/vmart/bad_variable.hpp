#pragma once

#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Finds out which VMART_* environment variables make something fail, by trying without them.
/// Faulty ones stay unset in this process. One thread.
class VariableBlame {
 public:
  /// Runs `body`; if it throws an Error, runs it again without each variable in turn. Throws: the
  /// Error if no variable causes it.
  void run(const std::function<void()>& body);

  /// What failed, and which variable to correct.
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

}  // namespace vma
