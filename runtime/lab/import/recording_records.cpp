#include "lab/import/recording_records.hpp"

#include "lab/import/trace_formats.hpp"
#include "lab/trace/event_order.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vma {
namespace {

/// The next file of the recording; empty if it does not exist.
std::string next_file(const std::string& path, const RecordingHeader& header) {
  const std::string ending = fmt::format("-{}.rec", header.file);
  if (!path.ends_with(ending)) return {};
  std::string next = path.substr(0, path.size() - ending.size());
  next += fmt::format("-{}.rec", header.file + 1);
  if (!std::filesystem::exists(next)) return {};
  const RecordingReader reader(next);
  const bool same =
      reader.header().process == header.process && reader.header().first_file == header.first_file;
  return same ? next : std::string();
}

constexpr std::array recording_parameters{
    TraceParameter{"window_ms", 1000, 0, 1e9, "how far records may be out of order"}};

/// Turns records into events, and tracks which allocations are alive.
class RecordedEvents : public RecordListener {
 public:
  RecordedEvents(const ConvertInput& input, EventOrder& order)
      : order_(&order),
        bad_(&input.bad),
        window_(std::chrono::milliseconds(input.values.whole("window_ms"))) {}

  void begin_file(const RecordingHeader& header) override {
    header_ = &header;
    for (const PlaceState& place : header.places) {
      if (place.place.ordinal <= TracePlace::ordinal_max) continue;
      throw Error(ErrorKind::invalid_argument, "convert",
                  fmt::format("{}: has a place {}", bad_->file(), to_string(place.place)));
    }
  }
  void damaged(const RecordingDamage& damage) override {
    bad_->add(number_, fmt::format("offset {}: {}", damage.offset, damage.reason));
  }

  void add(const RecordedEvent& event) override {
    ++number_;
    std::visit([this](const auto& record) { add_record(record); }, event);
  }

 private:
  struct Life {
    std::uint64_t bytes = 0, chunk_bytes = 0;
    Time begin{0}, last_use{0}, end = Time::max();
  };

  void bad(const std::string& reason) { bad_->add(number_, reason); }

  /// Advances the window, and passes on the events before it.
  void reach(Time time) {
    latest_ = std::max(latest_, time);
    now_ = std::max(now_, latest_ - window_);
    order_->advance(now_);
  }

  void add_record(const RecordedAllocation& record) {
    if (record.first_slot > 0) return add_places(record);  // Continues an earlier record.
    TraceEvent event;
    event.kind = TraceEventKind::allocation;
    event.time = std::max(record.time, now_);
    event.object = record.allocation;
    event.bytes = record.bytes;
    event.chunk_bytes = record.chunk_bytes;
    if (fault_of(event) != nullptr) return bad(fault_of(event));
    if (record.chunk_bytes == 0 || record.chunk_bytes > trace_object_bytes_max) {
      return bad("an allocation with chunks of size 0");
    }
    const auto [found, is_new] =
        lives_.try_emplace(record.allocation, Life{record.bytes, record.chunk_bytes});
    if (!is_new) return bad(fmt::format("allocation {} already exists", record.allocation));
    found->second.begin = found->second.last_use = event.time;
    event.tag = order_->intern(record.tag);
    if (!record.places.empty()) {
      event.at = TracePlace(header_->places[index(record.places.front().at)].place);
    }
    order_->add(event);
    add_places(record);
    reach(record.time);
  }

  /// Places the runs other than the one that begins with the first chunk.
  void add_places(const RecordedAllocation& record) {
    const auto found = lives_.find(record.allocation);
    if (found == lives_.end()) {
      return bad(fmt::format("places of allocation {}, which does not exist", record.allocation));
    }
    const Life& life = found->second;
    const std::uint64_t slots = (life.bytes - 1) / life.chunk_bytes + 1;
    TraceEvent event;
    event.kind = TraceEventKind::place;
    event.time = std::max({record.time, now_, life.begin});
    event.object = record.allocation;
    std::uint64_t slot = record.first_slot;
    for (const PlaceRun& run : record.places) {
      const std::uint64_t end = slot + run.chunks;
      if (slot > 0 && end <= slots && run.chunks > 0 && event.time < life.end) {
        event.offset = slot * life.chunk_bytes;
        event.bytes = std::min(end * life.chunk_bytes, life.bytes) - event.offset;
        event.at = TracePlace(header_->places[index(run.at)].place);
        order_->add(event);
      }
      slot = end;
    }
  }

  void add_record(const RecordedFree& record) {
    const auto found = lives_.find(record.allocation);
    if (found == lives_.end() || found->second.end != Time::max()) {
      return bad(fmt::format("a free of allocation {}, which does not exist", record.allocation));
    }
    Life& life = found->second;
    TraceEvent event;
    event.kind = TraceEventKind::free;
    event.time = life.end = std::max({record.time, life.last_use, now_});
    event.object = record.allocation;
    order_->add(event);
    reach(record.time);
  }

  void add_record(const RecordedUse& record) {
    const auto found = lives_.find(record.allocation);
    if (found == lives_.end()) {
      return bad(fmt::format("a use of allocation {}, which does not exist", record.allocation));
    }
    Life& life = found->second;
    if (record.time < now_ && life.begin < now_) return bad("a use that is too late");
    TraceEvent event;
    event.time = std::max(record.time, life.begin);
    // A use at the time of the free would be sorted after it.
    if (event.time >= life.end) return bad("a use of an allocation that was freed");
    if (record.offset >= life.bytes) return bad("a use beyond its allocation");
    event.object = record.allocation;
    event.offset = record.offset;
    event.bytes = std::min(record.bytes, life.bytes - record.offset);
    event.passes = record.passes * static_cast<float>(record.weight);
    event.use = record.kind;
    event.at = TracePlace(header_->places[index(record.device)].place);
    if (fault_of(event) != nullptr) return bad(fault_of(event));
    life.last_use = std::max(life.last_use, event.time);
    order_->add(event);
    reach(record.time);
  }

  void add_record(const RecordedGap& record) {
    bad(fmt::format("{} records and {} blocks were lost here", record.records, record.blocks));
  }
  void add_record(const RecordedHint& record) {
    const auto found = lives_.find(record.allocation);
    if (found == lives_.end()) {
      return bad(fmt::format("a hint of allocation {}, which does not exist", record.allocation));
    }
    Life& life = found->second;
    if (record.time < now_ && life.begin < now_) return bad("a hint that is too late");
    if (std::ranges::count(header_->places, record.hint.device, &PlaceState::place) == 0) {
      return bad(fmt::format("a hint for {}, which is no place", to_string(record.hint.device)));
    }
    TraceEvent event = hint_event(record.hint);
    event.time = std::max(record.time, life.begin);
    if (event.time >= life.end) return bad("a hint of an allocation that was freed");
    if (record.offset >= life.bytes) return bad("a hint beyond its allocation");
    event.object = record.allocation;
    event.offset = record.offset;
    event.bytes = std::min(record.bytes, life.bytes - record.offset);
    event.at = TracePlace(record.hint.device);
    if (fault_of(event) != nullptr) return bad(fault_of(event));
    life.last_use = std::max(life.last_use, event.time);
    order_->add(event);
    reach(record.time);
  }
  /// A chunk that the program moved is placed at its target, whatever a replay decides.
  void add_record(const RecordedMove& record) {
    const bool by_program = header_->scheduler && record.decision == 0 && record.moved;
    const auto found = lives_.find(record.allocation);
    if (!by_program || found == lives_.end()) return;
    const Life& life = found->second;
    TraceEvent event;
    event.kind = TraceEventKind::place;
    event.time = std::max({record.end, now_, life.begin});
    event.object = record.allocation;
    event.offset = record.slot * life.chunk_bytes;
    if (event.offset >= life.bytes) return bad("a move beyond its allocation");
    event.bytes = std::min(life.chunk_bytes, life.bytes - event.offset);
    event.at = TracePlace(header_->places[index(record.to)].place);
    if (event.time < life.end) order_->add(event);
    reach(record.end);
  }
  void add_record(const RecordedStall&) {}
  void add_record(const Decision&) {}

  EventOrder* order_;
  BadLines* bad_;
  Time window_;
  const RecordingHeader* header_ = nullptr;
  std::unordered_map<std::uint64_t, Life> lives_;
  std::uint64_t number_ = 0;
  Time latest_{0}, now_{0};
};

/// The runtime's own recordings (docs/reference/recordings.md).
///
/// An allocation is an object with its number, tag and chunk size. Its home is the place of its
/// first chunks; further events place the chunks that are elsewhere. A use is an access by the
/// device that made it; a sample that stands for several uses has that many times the passes. Hints
/// are hints. Times are those of the recording. A chunk that the program moved is placed at its new
/// place. The scheduler's moves, stalls and decisions are ignored, since a replay makes its own.
/// After vmart-PID-N.rec, the files N+1 and so on of the same recording in the same folder follow.
///
/// Records may be up to "window_ms" out of order and are sorted. Bad "lines" are records, counted
/// from 1 over all files: a use of an unknown or freed allocation, or one that starts beyond its
/// end; a use that arrives after the window; lost or damaged records.
void convert_recording(const ConvertInput& input, EventOrder& order) {
  RecordedEvents events(input, order);
  read_records(input.path, events);
}

}  // namespace

std::vector<std::string> recording_files(const std::string& first) {
  std::vector<std::string> files;
  for (std::string path = first; !path.empty();) {
    files.push_back(path);
    path = next_file(path, RecordingReader(path).header());
  }
  return files;
}

void read_records(const std::string& first, RecordListener& listener) {
  for (const std::string& path : recording_files(first)) {
    RecordingReader reader(path);
    listener.begin_file(reader.header());
    std::size_t damages = 0;
    const auto tell_damages = [&] {
      for (; damages < reader.damages().size(); ++damages)
        listener.damaged(reader.damages()[damages]);
    };
    while (const RecordedEvent* event = reader.next()) {
      listener.add(*event);
      tell_damages();
    }
    tell_damages();
  }
}

TraceFormat recording_format() {
  return {"recording",          "a recording of the runtime: vmart-PID-N.rec",
          "vmart recording",    "",
          recording_parameters, convert_recording,
          recording_files};
}

}  // namespace vma
