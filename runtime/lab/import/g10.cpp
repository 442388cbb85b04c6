#include "lab/import/g10.hpp"

#include "lab/import/input_lines.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vma {
namespace {

struct Tensor {
  std::uint64_t bytes = 0;
  bool weight = false;
  std::size_t first = 0, last = 0;  // The kernels of an iteration that use it, if `used`.
  bool used = false;
};

struct TracedKernel {
  Time duration{0};
  std::map<std::uint64_t, UseKind> uses;  // By tensor.
  int stage = 0;
};

using Tensors = std::unordered_map<std::uint64_t, Tensor>;

/// Path of the tensor table, which may be compressed.
std::string tensors_path(const std::string& kernels) {
  const std::size_t at = kernels.rfind("_kernels.jsonl");
  if (at != std::string::npos) {
    const std::string plain = kernels.substr(0, at) + "_tensors.csv";
    for (const std::string& path : {plain, plain + ".gz"}) {
      if (std::filesystem::exists(path)) return path;
    }
  }
  throw Error(
      ErrorKind::invalid_argument, "convert",
      fmt::format("{}: expected NAME_kernels.jsonl with NAME_tensors.csv in the same folder",
                  kernels));
}

Tensors read_tensors(const std::string& path, std::uint64_t bad_lines_max) {
  Tensors tensors;
  BadLines bad(path, bad_lines_max);
  for_each_csv_line(path, "tensor,is_weight,bytes", bad, [&](const CsvFields& fields) {
    const std::uint64_t number = whole_number(fields[0], "tensor", 0, UINT64_MAX);
    Tensor tensor;
    tensor.weight = whole_number(fields[1], "is_weight", 0, 1) == 1;
    tensor.bytes = whole_number(fields[2], "bytes", 0, trace_object_bytes_max);
    if (!tensors.emplace(number, tensor).second) refuse_line("tensor: appears twice");
  });
  return tensors;
}

void read_uses(JsonReader& json, std::string_view key, UseKind kind, const Tensors& tensors,
               TracedKernel& kernel) {
  for (const boost::json::value& item : json.list(key)) {
    boost::system::error_code failed;
    const auto number = item.is_number() ? item.to_number<std::uint64_t>(failed) : 0;
    if (!item.is_number() || failed)
      refuse_line(fmt::format("{}: contains an entry that is not a tensor", key));
    const auto tensor = tensors.find(number);
    if (tensor == tensors.end() || tensor->second.bytes == 0) {
      refuse_line(fmt::format("{}: tensor {} has no bytes", key, number));
    }
    const auto [found, is_new] = kernel.uses.try_emplace(number, kind);
    if (!is_new && found->second != kind) found->second = UseKind::read_write;
  }
}

std::vector<TracedKernel> read_kernels(const ConvertInput& input, const Tensors& tensors) {
  std::vector<TracedKernel> kernels;
  for_each_json_line(input.path, input.bad, [&](JsonReader& json) {
    TracedKernel kernel;
    kernel.duration = Time(std::llround(json.number("us", 0, 1e12) * 1000));
    read_uses(json, "in", UseKind::read, tensors, kernel);
    read_uses(json, "out", UseKind::write, tensors, kernel);
    kernels.push_back(std::move(kernel));
  });
  return kernels;
}

void find_lives(const std::vector<TracedKernel>& kernels, Tensors& tensors) {
  for (std::size_t number = 0; number < kernels.size(); ++number) {
    for (const auto& [tensor, use] : kernels[number].uses) {
      Tensor& life = tensors.at(tensor);
      if (!life.used) life.first = number;
      life.used = true;
      life.last = number;
    }
  }
}

/// A kernel belongs to the stage in which it begins.
void cut_stages(std::vector<TracedKernel>& kernels, std::uint64_t stages) {
  double total = 0, before = 0;
  for (const TracedKernel& kernel : kernels) total += static_cast<double>(kernel.duration.count());
  for (TracedKernel& kernel : kernels) {
    const double share = total > 0 ? before / total : 0;
    const auto stage = static_cast<std::uint64_t>(share * static_cast<double>(stages));
    kernel.stage = static_cast<int>(std::min(stage, stages - 1));
    before += static_cast<double>(kernel.duration.count());
  }
}

/// Writes the events of the kernels in sequence.
class Iterations {
 public:
  Iterations(EventOrder& order, const Tensors& tensors, bool staged)
      : order_(&order), tensors_(&tensors), staged_(staged) {}

  void run(const std::vector<TracedKernel>& kernels, std::uint64_t iteration) {
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
    std::set<std::uint64_t> weights;  // Ordered, so that equal input gives equal output.
    for (const auto& [number, tensor] : *tensors_) {
      if (tensor.weight && tensor.used) weights.insert(number);
    }
    for (const std::uint64_t weight : weights) order_->add(event(TraceEventKind::free, weight));
  }

 private:
  TraceEvent event(TraceEventKind kind, std::uint64_t object) const {
    TraceEvent event;
    event.time = now_;
    event.kind = kind;
    event.object = object;
    return event;
  }
  void allocate(const TracedKernel& kernel, std::size_t number, bool first_iteration) {
    for (const auto& [object, use] : kernel.uses) {
      const Tensor& tensor = tensors_->at(object);
      if (tensor.first != number || (tensor.weight && !first_iteration)) continue;
      TraceEvent allocation = event(TraceEventKind::allocation, object);
      allocation.bytes = tensor.bytes;
      allocation.tag = order_->intern(tensor.weight ? "weights" : "tensors");
      order_->add(allocation);
    }
  }
  void access(const TracedKernel& kernel) {
    for (const auto& [object, use] : kernel.uses) {
      TraceEvent access = event(TraceEventKind::access, object);
      access.bytes = tensors_->at(object).bytes;
      access.use = use;
      access.duration = kernel.duration;
      access.task = task_;
      if (staged_) access.at = TracePlace(gpu(kernel.stage));
      order_->add(access);
    }
  }
  void free(const TracedKernel& kernel, std::size_t number) {
    for (const auto& [object, use] : kernel.uses) {
      const Tensor& tensor = tensors_->at(object);
      if (tensor.last == number && !tensor.weight) {
        order_->add(event(TraceEventKind::free, object));
      }
    }
  }

  EventOrder* order_;
  const Tensors* tensors_;
  bool staged_;
  Time now_{0};
  std::uint32_t task_ = 0;
};

}  // namespace

std::vector<std::string> g10_files(const std::string& kernels) {
  return {kernels, tensors_path(kernels)};
}

void convert_g10(const ConvertInput& input, EventOrder& order) {
  Tensors tensors = read_tensors(tensors_path(input.path), input.bad.most());
  std::vector<TracedKernel> kernels = read_kernels(input, tensors);
  find_lives(kernels, tensors);
  const std::uint64_t stages = input.values.whole("stages");
  if (stages > 0) cut_stages(kernels, stages);
  Iterations iterations(order, tensors, stages > 0);
  for (std::uint64_t number = 1; number <= input.values.whole("iterations"); ++number) {
    iterations.run(kernels, number);
  }
  iterations.free_weights();
}

}  // namespace vma
