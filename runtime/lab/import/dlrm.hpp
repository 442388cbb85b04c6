#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Locality statistics of Meta's DLRM data sets: the share of all look-ups that goes to embedding
/// rows with equal look-up counts in a batch ("Ratio of index distribution").
///
/// The file has histograms, not look-ups, so those are drawn. One section of it ("section", from 0
/// on) is scaled to "lookups" look-ups per batch: each class has as many rows as its share of
/// look-ups requires, if each row is looked up as often as the middle of the class. Rows of
/// "row_bytes" are consecutive in objects of "object_bytes" tagged "rows", the rows of the most
/// frequent classes first; with "grouped" 0 they are mixed, and all objects are used alike. Each
/// batch is cut into "tasks". For each task and object there is one read of the whole object with
/// as many passes, far below one, as the drawn look-ups have bytes. Their number is a Poisson
/// number that follows from the seed.
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
