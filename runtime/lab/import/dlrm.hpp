#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Locality statistics of Meta's DLRM data sets: for each class of embedding rows with similar
/// look-up counts in a batch, its share of all look-ups ("Ratio of index distribution").
///
/// The file contains histograms, not look-ups, so the converter samples them. It scales one section
/// of the file ("section", counted from 0) to "lookups" look-ups per batch: each class gets as many
/// rows as its share of look-ups requires if each row is looked up as often as the middle of the
/// class. Rows of "row_bytes" are consecutive in objects of "object_bytes" tagged "rows", starting
/// with the most frequent classes; with "grouped" 0 they are mixed, and all objects are used alike.
/// Each batch is split into "tasks". Each task reads each object once, in full, with far less than
/// one pass, so that the bytes match the sampled number of look-ups. That number has a Poisson
/// distribution and depends on the seed.
void convert_dlrm(const ConvertInput& input, EventOrder& order);

inline constexpr std::array dlrm_parameters{
    TraceParameter{"section", 0, 0, 1e6, "which histogram of the file"},
    TraceParameter{"lookups", 1e7, 1, 1e12, "look-ups a batch"},
    TraceParameter{"row_bytes", 512, 1, 1 << 20, "size of an embedding row"},
    TraceParameter{"object_bytes", 2 << 20, 1 << 12, 1e12, "size of an object"},
    TraceParameter{"grouped", 1, 0, 1, "1: rows are sorted by look-ups; 0: mixed"},
    TraceParameter{"batches", 100, 1, 1e9, "batches"},
    TraceParameter{"batch_us", 100'000, 1, 1e12, "time between batches"},
    TraceParameter{"tasks", 8, 1, 10'000, "parts of a batch, one per device"}};

}  // namespace vma
