#include "lab/import/g10_kernels.hpp"

#include "lab/import/input_lines.hpp"
#include "lab/trace/trace_event.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

namespace vma {
namespace {

using TensorTable = std::unordered_map<std::uint64_t, TrainedTensor>;

TensorTable read_tensors(const std::string& path, std::uint64_t bad_lines_max) {
  TensorTable tensors;
  BadLines bad(path, bad_lines_max);
  for_each_csv_line(path, "tensor,is_weight,bytes", bad, 0, [&](const CsvFields& fields) {
    const std::uint64_t number = whole_number(fields[0], "tensor", 0, UINT64_MAX);
    TrainedTensor tensor;
    tensor.weight = whole_number(fields[1], "is_weight", 0, 1) == 1;
    tensor.bytes = whole_number(fields[2], "bytes", 0, trace_object_bytes_max);
    if (!tensors.emplace(number, tensor).second) refuse_line("tensor: appears twice");
  });
  return tensors;
}

void read_uses(JsonReader& json, std::string_view key, UseKind kind, const TensorTable& tensors,
               TrainingKernel& kernel) {
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

std::vector<TrainingKernel> read_kernels(const ConvertInput& input, const TensorTable& tensors) {
  std::vector<TrainingKernel> kernels;
  for_each_json_line(input.path, input.bad, 0, [&](JsonReader& json) {
    TrainingKernel kernel;
    kernel.duration = Time(std::llround(json.number("us", 0, 1e12) * 1000));
    read_uses(json, "in", UseKind::read, tensors, kernel);
    read_uses(json, "out", UseKind::write, tensors, kernel);
    kernels.push_back(std::move(kernel));
  });
  return kernels;
}

void find_lives(const std::vector<TrainingKernel>& kernels, TensorTable& tensors) {
  for (std::size_t number = 0; number < kernels.size(); ++number) {
    for (const auto& [tensor, use] : kernels[number].uses) {
      TrainedTensor& life = tensors.at(tensor);
      if (!life.used) life.first = number;
      life.used = true;
      life.last = number;
    }
  }
}

/// A kernel belongs to the stage in which it begins.
void cut_stages(std::vector<TrainingKernel>& kernels, std::uint64_t stages) {
  double total = 0, before = 0;
  for (const TrainingKernel& kernel : kernels)
    total += static_cast<double>(kernel.duration.count());
  for (TrainingKernel& kernel : kernels) {
    const double share = total > 0 ? before / total : 0;
    const auto stage = static_cast<std::uint64_t>(share * static_cast<double>(stages));
    kernel.stage = static_cast<int>(std::min(stage, stages - 1));
    before += static_cast<double>(kernel.duration.count());
  }
}

}  // namespace

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

TrainingIteration read_iteration(const ConvertInput& input, std::uint64_t stages) {
  TrainingIteration iteration;
  iteration.tensors = read_tensors(tensors_path(input.path), input.bad.most());
  iteration.kernels = read_kernels(input, iteration.tensors);
  find_lives(iteration.kernels, iteration.tensors);
  if (stages > 0) cut_stages(iteration.kernels, stages);
  return iteration;
}

std::vector<std::uint64_t> TrainingIteration::weights_used() const {
  std::vector<std::uint64_t> weights;
  for (const auto& [number, tensor] : tensors) {
    if (tensor.weight && tensor.used) weights.push_back(number);
  }
  std::ranges::sort(weights);
  return weights;
}

}  // namespace vma
