#include "bench/lab/real_trace.hpp"

#include "lab/trace/trace_files.hpp"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace vma {
namespace {

class FirstAccesses : public TraceSource {
 public:
  FirstAccesses(std::unique_ptr<TraceSource> all, std::uint64_t accesses)
      : all_(std::move(all)), left_(accesses) {}

  std::span<const TraceEvent> next() override {
    if (left_ == 0) return {};
    const std::span<const TraceEvent> events = all_->next();
    // In the same order, so that they get the same numbers.
    for (std::size_t tag = tags_.size(); tag < all_->tags().size(); ++tag)
      tags_.intern(all_->tags().text(static_cast<TagId>(tag)));
    std::size_t count = 0;
    while (count < events.size() && left_ > 0)
      left_ -= events[count++].kind == TraceEventKind::access ? 1 : 0;
    return events.first(count);
  }

 private:
  std::unique_ptr<TraceSource> all_;
  std::uint64_t left_;
};

}  // namespace

RealTrace::RealTrace(ConvertOptions made) : made_(std::move(made)) {}

RealTrace::~RealTrace() {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

void RealTrace::convert() {
  if (!file_.empty()) return;
  static std::atomic<int> number{0};
  file_ = std::filesystem::temp_directory_path() / ("vmart-bench-" + std::to_string(::getpid()) +
                                                    "-" + std::to_string(++number) + ".vtrace");
  made_.output = file_;
  convert_trace(made_);
  room_ = audit_trace(file_).room();
}

const TraceRoom& RealTrace::room() {
  convert();
  return room_;
}

std::unique_ptr<TraceSource> RealTrace::open(std::uint64_t accesses_max) {
  convert();
  return std::make_unique<FirstAccesses>(open_trace(file_), accesses_max);
}

}  // namespace vma
