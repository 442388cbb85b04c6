#include "python/core/faults_or_hooks.hpp"

#include <vma/error.hpp>

#include <cstddef>
#include <mutex>

namespace vma {
namespace {

struct Counts {
  std::mutex mutex;
  std::size_t of[2] = {};
};

// Never destroyed: memory of Python may go after all statics.
Counts& counts() {
  static Counts* const existing = new Counts();
  return *existing;
}

}  // namespace

std::shared_ptr<void> FaultsOrHooks::claim(Kind kind, const char* call) {
  Counts& existing = counts();
  const std::size_t own = kind == Kind::faults ? 0 : 1;
  {
    const std::scoped_lock lock(existing.mutex);
    if (existing.of[1 - own] > 0) {
      throw Error(ErrorKind::unsupported, call,
                  kind == Kind::faults
                      ? "memory that the CPU faults in cannot exist beside hooks in Python "
                        "(vmart.on_move): release them first"
                      : "hooks in Python cannot exist beside memory that the CPU faults in "
                        "(cpu_access=\"fault\", vmart.numpy): free it first");
    }
    ++existing.of[own];
  }
  return {nullptr, [own](void*) {
            Counts& existing = counts();
            const std::scoped_lock lock(existing.mutex);
            --existing.of[own];
          }};
}

}  // namespace vma
