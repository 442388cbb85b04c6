#include "lab/import/trace_formats.hpp"

#include "lab/generate/trace_random.hpp"
#include "lab/import/input_lines.hpp"
#include "lab/trace/event_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

namespace vma {
namespace {

constexpr std::array dlrm_parameters{
    TraceParameter{"section", 0, 0, 1e6, "which histogram of the file"},
    TraceParameter{"lookups", 1e7, 1, 1e12, "look-ups a batch"},
    TraceParameter{"row_bytes", 512, 1, 1 << 20, "size of an embedding row"},
    TraceParameter{"object_bytes", 2 << 20, 1 << 12, 1e12, "size of an object"},
    TraceParameter{"grouped", 1, 0, 1, "1: rows are sorted by look-ups; 0: mixed"},
    TraceParameter{"batches", 100, 1, 1e9, "batches"},
    TraceParameter{"batch_us", 100'000, 1, 1e12, "time between batches"},
    TraceParameter{"tasks", 8, 1, 10'000, "parts of a batch, one per device"}};

constexpr double rows_max = 1e11;
constexpr double objects_max = 1e7;

/// Rows with more than `least` and at most `most` look-ups per batch.
struct RowClass {
  double least = 0, most = 0, share = 0;
  /// The mean of the whole numbers in the class.
  double lookups_a_row() const { return (least + 1 + most) / 2; }
};

double number_of(std::string_view text) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
    refuse_line(fmt::format("\"{}\" is not a number of at least 0", text));
  }
  return value;
}

/// Format: "(2, 4]: 0.068" or "(32768+: 0.019".
RowClass read_class(std::string_view line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) refuse_line("is not a share of a class");
  const std::string_view range = line.substr(1, colon - 1);
  RowClass found;
  found.share = number_of(line.substr(colon + 2));
  if (range.ends_with('+')) {
    found.least = number_of(range.substr(0, range.size() - 1));
    found.most = 2 * found.least;
  } else {
    const std::size_t comma = range.find(", ");
    if (comma == std::string_view::npos || !range.ends_with(']')) refuse_line("is not a class");
    found.least = number_of(range.substr(0, comma));
    found.most = number_of(range.substr(comma + 2, range.size() - comma - 3));
  }
  if (found.share > 1 || found.most <= found.least) refuse_line("is not a share of a class");
  return found;
}

/// The classes of one section, with the most frequent rows first.
std::vector<RowClass> read_section(const ConvertInput& input) {
  const std::uint64_t wanted = input.values.whole("section");
  LineReader lines(input.path);
  std::vector<RowClass> classes;
  std::uint64_t sections = 0;
  bool inside = false;
  while (const auto line = lines.next()) {
    if (line->starts_with("Ratio of index distribution")) {
      inside = sections++ == wanted;
    } else if (!line->starts_with('(')) {
      inside = false;
    } else if (inside) {
      try {
        classes.push_back(read_class(*line));
      } catch (const Error& error) {
        input.bad.add(lines.line(), error.what());
      }
    }
  }
  if (classes.empty()) {
    throw Error(
        ErrorKind::invalid_argument, "convert",
        fmt::format("{}: has {} sections, but not number {}", input.path, sections, wanted));
  }
  std::reverse(classes.begin(), classes.end());
  return classes;
}

/// The mean number of look-ups per batch for each object.
std::vector<double> lookups_of_objects(const ConvertInput& input) {
  const std::vector<RowClass> classes = read_section(input);
  const double lookups = input.values["lookups"];
  const double rows_an_object =
      std::max(1.0, std::floor(input.values["object_bytes"] / input.values["row_bytes"]));
  double rows = 0;
  std::vector<double> objects{0};
  double room = rows_an_object;  // Rows that still fit into the last object.
  for (const RowClass& one : classes) {
    double left = std::round(one.share * lookups / one.lookups_a_row());
    rows += left;
    if (rows > rows_max || rows / rows_an_object > objects_max) {
      throw Error(ErrorKind::invalid_argument, "convert", "more rows than there can be");
    }
    while (left > 0) {
      if (room == 0) {
        objects.push_back(0);
        room = rows_an_object;
      }
      const double taken = std::min(left, room);
      objects.back() += taken * one.lookups_a_row();
      room -= taken;
      left -= taken;
    }
  }
  if (input.values["grouped"] == 0) {
    double sum = 0;
    for (const double object : objects) sum += object;
    std::fill(objects.begin(), objects.end(), sum / static_cast<double>(objects.size()));
  }
  return objects;
}

TraceEvent event_of(TraceEventKind kind, Time time, std::uint64_t object, std::uint64_t bytes) {
  TraceEvent event;
  event.kind = kind;
  event.time = time;
  event.object = object;
  event.bytes = bytes;
  return event;
}

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
void convert_dlrm(const ConvertInput& input, EventOrder& order) {
  const TraceValues& values = input.values;
  const std::vector<double> objects = lookups_of_objects(input);
  const std::uint64_t bytes = values.whole("object_bytes");
  const std::uint64_t tasks = values.whole("tasks");
  const double passes_a_lookup = values["row_bytes"] / values["object_bytes"];
  const Time batch_time = std::chrono::microseconds(values.whole("batch_us"));
  TraceRandom random(input.seed);
  for (std::size_t object = 0; object < objects.size(); ++object) {
    TraceEvent allocation = event_of(TraceEventKind::allocation, Time(0), object, bytes);
    allocation.tag = order.intern("rows");
    order.add(allocation);
  }
  Time now{0};
  std::uint32_t task = 0;
  for (std::uint64_t batch = 0; batch < values.whole("batches"); ++batch, now += batch_time) {
    order.advance(now);
    for (std::uint64_t part = 0; part < tasks; ++part) {
      ++task;
      for (std::size_t object = 0; object < objects.size(); ++object) {
        const std::uint64_t drawn = random.poisson(objects[object] / static_cast<double>(tasks));
        if (drawn == 0) continue;
        TraceEvent access = event_of(TraceEventKind::access, now, object, bytes);
        access.passes = static_cast<float>(static_cast<double>(drawn) * passes_a_lookup);
        access.duration = batch_time;
        access.task = task;
        order.add(access);
      }
    }
  }
  for (std::size_t object = 0; object < objects.size(); ++object) {
    order.add(event_of(TraceEventKind::free, now, object, 0));
  }
}

}  // namespace

TraceFormat dlrm_format() {
  return {"dlrm",
          "locality statistics of embedding look-ups: locality_stats_*.txt",
          "facebookresearch/dlrm_datasets",
          "MIT",
          dlrm_parameters,
          convert_dlrm};
}

}  // namespace vma
