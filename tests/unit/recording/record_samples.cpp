#include "unit/recording/record_samples.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace vma {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "vmart-record-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

RecordingHeader sample_header() {
  RecordingHeader header;
  header.clock_start_utc_ns = 1'700'000'000'123'456'789;
  header.process = 4242;
  header.machine = "simulated test machine";
  header.places = {{gpu(0), 1000, 0, 0}, {gpu(1), 2000, 0, 0}, {host(0), 3000, 0, 0}};
  header.costs = MachineCosts(2, 3);
  for (std::uint8_t from = 0; from < 3; ++from) {
    for (std::uint8_t to = 0; to < 3; ++to) {
      const PlaceId a{from}, b{to};
      const int cell = from * 3 + to;
      if (from < 2) header.costs.access_rate(a, b) = 1e11 + cell / 2.0;
      if (from < 2) header.costs.access_latency(a, b) = Time(500 + cell);
      header.costs.copy_rate(a, b) = 2e11 + cell / 4.0;
      header.costs.move_fixed(a, b) = Time(600 + cell);
      header.costs.move_per_byte(a, b) = 2e-12 * cell;
      header.costs.stall_fixed(a, b) = Time(700 + cell);
      header.costs.stall_per_byte(a, b) = 1e-12 * cell;
    }
  }
  header.gaps = {{Time(2'000), Time(2'001)}, {Time(15'000), Time(15'001)}};
  header.peers = {{{LinkKind::same, LinkKind::nvlink}, {LinkKind::pcie, LinkKind::same}},
                  {664e9, 0}};
  return header;
}

std::uint64_t RecordSamples::number() {
  switch (random_() % 4) {
    case 0: return random_() % 300;
    case 1: return random_() >> (random_() % 64);
    case 2: return UINT64_MAX - random_() % 2;
    default: return (random_() % 64) << 21;
  }
}

Time RecordSamples::time() {
  return Time(static_cast<std::int64_t>(number()));
}

std::string RecordSamples::text(std::size_t bytes_max) {
  std::string text(random_() % 3 == 0 ? bytes_max : random_() % 20, 'x');
  for (char& letter : text) letter = static_cast<char>(random_() % 127 + 1);
  return text;
}

Place RecordSamples::any_place() {
  const int ordinals[] = {0, 1, 7, -1, INT_MAX, INT_MIN};
  const int ordinal = ordinals[random_() % 6];
  return chance() ? gpu(ordinal) : host(ordinal);
}

RecordedUse RecordSamples::use() {
  RecordedUse use{time(), number(), number(), number()};
  if (chance()) use.passes = static_cast<float>(random_() % 1000) / 7;
  if (chance()) use.weight = number32();
  use.device = place();
  use.kind = static_cast<UseKind>(random_() % 3);
  return use;
}

Decision RecordSamples::decision() {
  Decision decision;
  decision.sequence = number();
  decision.time = time();
  decision.kind = static_cast<DecisionKind>(random_() % decision_kinds);
  decision.plan = number();
  decision.policy = text(decision_name_bytes_max);
  if (chance()) {
    decision.chunk = {number(), number(), number32(), number(), text(decision_name_bytes_max)};
  }
  if (chance()) decision.from = gpu(static_cast<int>(random_() % 200));
  if (chance()) decision.to = host(static_cast<int>(random_() % 200));
  decision.why = text(decision_text_bytes_max);
  decision.reason = text(decision_text_bytes_max);
  decision.value = static_cast<double>(static_cast<std::int64_t>(random_())) / 3e9;
  decision.victim = chance();
  if (chance()) decision.predicted = {time(), time()};
  if (chance()) decision.happened = {time(), time()};
  if (chance()) decision.began = time();
  if (chance()) decision.ended = time();
  return decision;
}

RecordedEvent RecordSamples::any() {
  switch (random_() % 8) {
    case 0: return use();
    case 1: {
      RecordedAllocation made{time(),     number(), number(),
                              number(),   number(), text(decision_name_bytes_max),
                              number32(), {}};
      const std::size_t runs = random_() % 5 == 0 ? place_runs_max : random_() % 9;
      for (std::size_t run = 0; run < runs; ++run) made.places.push_back({place(), number32()});
      return made;
    }
    case 2: return RecordedFree{time(), number()};
    case 3: {
      RecordedHint hint{time(), number(), number(), number(), {}};
      hint.hint.device = any_place();
      if (chance()) hint.hint.next_use = time();
      hint.hint.passes = static_cast<double>(random_() % 100) / 3;
      hint.hint.read_mostly = chance();
      if (chance()) hint.hint.until = time();
      return hint;
    }
    case 4:
      return RecordedMove{time(),   time(),     time(),  number(), number(),
                          number(), number32(), place(), place(),  chance()};
    case 5: return RecordedStall{time(), time(), time(), number(), number32()};
    case 6: return decision();
    default: return RecordedGap{number(), number()};
  }
}

bool same(const RecordedEvent& left, const RecordedEvent& right) {
  const auto* a = std::get_if<RecordedHint>(&left);
  const auto* b = std::get_if<RecordedHint>(&right);
  if (a != nullptr && b != nullptr) {
    return a->time == b->time && a->allocation == b->allocation && a->offset == b->offset &&
           a->bytes == b->bytes && a->hint.device == b->hint.device &&
           a->hint.next_use == b->hint.next_use && a->hint.passes == b->hint.passes &&
           a->hint.read_mostly == b->hint.read_mostly && a->hint.until == b->hint.until;
  }
  return std::visit(
      [](const auto& x, const auto& y) {
        if constexpr (std::is_same_v<decltype(x), decltype(y)> &&
                      !std::is_same_v<decltype(x), const RecordedHint&>) {
          return x == y;
        } else {
          return false;
        }
      },
      left, right);
}

}  // namespace vma
