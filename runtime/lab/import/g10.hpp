#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <string>
#include <vector>

namespace vma {

/// Training iterations as traced by G10: JSON lines of kernels, {"k","name","us","in","out"}, with
/// tensors by number, in NAME_kernels.jsonl; and beside it NAME_tensors.csv:
/// tensor,is_weight,bytes. Either may be compressed.
///
/// The kernels run one after the other, "iterations" times. Each is a task, numbered from 1 on,
/// that passes once over each of its tensors in the time it took: reads those in "in", writes those
/// in "out", and reads and writes those in both. A tensor is an object with its number. Weights,
/// tagged so, live from their first use to the end; the others from their first use in an iteration
/// to the end of the last, and are allocated again in the next. A mark begins each iteration. With
/// "stages" above 0 the kernels of an iteration are cut into that many parts of equal time, one per
/// GPU, like a pipeline; with 0 the trace names no device. A kernel with a tensor that the table
/// lacks, or that has no bytes, is a bad line.
void convert_g10(const ConvertInput& input, EventOrder& order);

/// The kernels, and the table of tensors beside them. Throws: Error{invalid_argument} if missing.
std::vector<std::string> g10_files(const std::string& kernels);

inline constexpr std::array g10_parameters{
    TraceParameter{"iterations", 2, 1, 60e3, "how often the kernels run"},
    TraceParameter{"stages", 0, 0, 1000, "GPUs in a pipeline; 0: name no device"}};

}  // namespace vma
