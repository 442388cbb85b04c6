#include "python/core/cpu_views.hpp"

#include <vma/error.hpp>

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

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

struct Views {
  std::mutex mutex;
  unsigned existing = 0;  // Guarded by `mutex`.
  bool ended = false;     // Guarded by `mutex`.

  // Never destroyed: arrays may go after all statics.
  static Views& of_process() {
    static Views* const one = new Views();
    return *one;
  }
};

[[noreturn]] void refuse(unsigned views, const char* call, const char* memory) {
  throw Error(ErrorKind::pinned, call,
              std::to_string(views) +
                  (views == 1 ? " array or buffer of the CPU shows "
                              : " arrays or buffers of the CPU show ") +
                  memory + " (NumPy, memoryview, DLPack): delete " + (views == 1 ? "it" : "them") +
                  " first");
}

}  // namespace

CpuView::CpuView(std::shared_ptr<Count> count) : count_(std::move(count)) {
  Views& views = Views::of_process();
  const std::scoped_lock lock(views.mutex);
  if (views.ended) {
    throw Error(ErrorKind::driver_gone, "vmart", "the runtime was shut down, its memory is gone");
  }
  ++views.existing;
  ++*count_;
}

CpuView::~CpuView() {
  if (!count_) return;
  Views& views = Views::of_process();
  const std::scoped_lock lock(views.mutex);
  --views.existing;
  --*count_;
}

void CpuView::require_none(const Count& count, const char* call) {
  if (const unsigned views = count.load()) refuse(views, call, "the memory");
}

void CpuView::end_all(const char* call) {
  Views& views = Views::of_process();
  const std::scoped_lock lock(views.mutex);
  if (views.existing > 0) refuse(views.existing, call, "memory of vmart");
  views.ended = true;
}

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
