#include "bench/allocations/allocation_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace vma {
namespace {

constexpr std::uint64_t blocks_max = 100'000'000;
constexpr int streams_max = 1024;

/// Keeps the books of a trace while it is read.
class Reader {
 public:
  explicit Reader(AllocationTrace& trace) : trace_(trace) {}

  /// False: the line makes no sense.
  bool take(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    if (!(words >> kind) || kind == "#") return true;
    AllocationTrace::Step step;
    if (kind == "held") return static_cast<bool>(words >> trace_.held_peak_bytes);
    if (!(words >> step.block) || step.block >= blocks_max) return false;
    if (kind == "a" && !(words >> step.bytes && step.bytes > 0)) return false;
    if (!(words >> step.stream) || step.stream < 0 || step.stream >= streams_max) return false;
    return (kind == "a" || kind == "f") && enter(step);
  }

 private:
  bool enter(const AllocationTrace::Step& step) {
    if (step.block >= bytes_.size()) bytes_.resize(step.block + 1);
    std::uint64_t& bytes = bytes_[step.block];
    if ((bytes == 0) == (step.bytes == 0)) return false;  // Freed or allocated twice.
    live_bytes_ += step.bytes - bytes;
    bytes = step.bytes;
    trace_.asked_peak_bytes = std::max(trace_.asked_peak_bytes, live_bytes_);
    trace_.blocks = bytes_.size();
    trace_.streams = std::max(trace_.streams, step.stream + 1);
    trace_.steps.push_back(step);
    return true;
  }

  AllocationTrace& trace_;
  std::vector<std::uint64_t> bytes_;  // Of each live block.
  std::uint64_t live_bytes_ = 0;
};

}  // namespace

AllocationTrace load_allocations(const std::string& file) {
  AllocationTrace trace;
  trace.name = std::filesystem::path(file).stem().string();
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  Reader reader(trace);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!reader.take(line)) {
      throw std::runtime_error(file + ":" + std::to_string(number) + ": not a step: " + line);
    }
  }
  return trace;
}

std::vector<AllocationTrace> load_all_allocations(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  std::vector<AllocationTrace> traces;
  for (const std::string& file : files) traces.push_back(load_allocations(file));
  return traces;
}

}  // namespace vma
