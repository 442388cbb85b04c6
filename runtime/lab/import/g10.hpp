#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <string>
#include <vector>

namespace vma {

/// Training iterations as traced by G10: a JSON-lines file NAME_kernels.jsonl with one kernel per
/// line, {"k","name","us","in","out"}, where "in" and "out" list tensor numbers; and next to it
/// NAME_tensors.csv: tensor,is_weight,bytes. Both may be compressed.
///
/// The kernels run in sequence, "iterations" times. Each is a task, numbered from 1. Over its
/// measured time it passes once over each of its tensors: it reads those in "in", writes those in
/// "out", and does both for those in both. Weights have the tag "weights" and live from their first
/// use to the end; other tensors live from their first to their last use in each iteration. A mark
/// begins each iteration. With "stages" above 0 the kernels of an iteration are split into that
/// many parts of equal time, one per GPU, like a pipeline; with 0 the trace names no device. A
/// kernel with a tensor that is missing in the table or has no bytes is a bad line.
///
/// In a closed loop, a kernel follows the previous one of its microbatch, and the previous one on
/// its stage: a stage runs the microbatches in order, and an iteration follows the whole previous
/// one, which has changed the weights. Each microbatch has its own tensors of its share of the
/// bytes, and its kernels take its share of the time; it passes once over each weight. So the
/// weights are read and written as often as there are microbatches. With "hints", each kernel
/// announces when each of its tensors is used next, and by which stage, as a compiler knows it that
/// has measured the kernels: a `TrainingPlan`. A weight is an object with the
/// tensor's number, and every other tensor is a new object each time. In an open loop, every tensor
/// is an object with its number, and kernels begin at the times at which they would if memory never
/// delayed one.
void convert_g10(const ConvertInput& input, EventOrder& order);

/// Returns the kernels file and the tensor table. Throws: Error{invalid_argument} if one is
/// missing.
std::vector<std::string> g10_files(const std::string& kernels);

inline constexpr std::array g10_parameters{
    TraceParameter{"iterations", 2, 1, 60e3, "how often the kernels run"},
    TraceParameter{"stages", 0, 0, 1000, "GPUs in a pipeline; 0: name no device"}, closed_parameter,
    TraceParameter{
        "microbatches", 0, 0, 1000,
        "microbatches of an iteration of a closed loop; 0: 4 if there are several stages, "
        "else 1"},
    hints_parameter};

}  // namespace vma
