#include "unit/lab/trace/trace_rig.hpp"

#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>

namespace vma {

void PrintTo(const ToldEvent& told, std::ostream* out) {
  const TraceEvent& event = told.event;
  *out << to_string(event.kind) << " at " << event.time.count() << " of " << event.object << ": "
       << event.bytes << " from " << event.offset << " chunks of " << event.chunk_bytes << ", use "
       << static_cast<int>(event.use) << " x " << event.passes << " in " << event.duration.count()
       << ", task " << event.task << ", place " << event.at.code()
       << (event.at_end ? ", at its end" : "") << ", \"" << told.tag << '"';
}

void KeepingSink::write(std::span<const TraceEvent> written, const TraceTags& tags) {
  for (const TraceEvent& event : written) {
    events.push_back({event, std::string(tags.text(event.tag))});
    events.back().event.tag = TagId{};
  }
}

std::vector<ToldEvent> read_all(TraceSource& source) {
  KeepingSink kept;
  for (;;) {
    const std::span<const TraceEvent> events = source.next();
    if (events.empty()) return std::move(kept.events);
    kept.write(events, source.tags());
  }
}

std::vector<ToldEvent> read_all(const std::string& path) {
  return read_all(*open_trace(path));
}

void write_all(const std::string& path, const TraceHeader& header,
               const std::vector<ToldEvent>& events) {
  const auto sink = create_trace(path, header);
  TraceTags tags;
  for (const ToldEvent& told : events) {
    TraceEvent event = told.event;
    event.tag = tags.intern(told.tag);
    sink->write({&event, 1}, tags);
  }
  sink->finish();
}

void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  ToldEvent next() {
    ToldEvent told;
    TraceEvent& event = told.event;
    time_ += random_() % (std::uint64_t{1} << (random_() % 40));
    event.time = Time(static_cast<std::int64_t>(time_));
    event.kind = static_cast<TraceEventKind>(1 + random_() % trace_event_kinds);
    if (event.kind == TraceEventKind::after) {
      if (task_.task != 0 && random_() % 4 != 0) return predecessor();
      event.kind = TraceEventKind::task;
    }
    const bool is_task = event.kind == TraceEventKind::task;
    task_.task = 0;
    if (is_task) return fill_task(event), told.tag = chance() ? text() : "", told;
    if (event.kind != TraceEventKind::mark) event.object = number(64);
    if (event.kind == TraceEventKind::hint) return fill_hint(event), told;
    const bool can_wait = event.kind == TraceEventKind::allocation ||
                          event.kind == TraceEventKind::free || event.kind == TraceEventKind::mark;
    if (can_wait && chance()) event.task = static_cast<std::uint32_t>(number(32));
    if (event.kind == TraceEventKind::access) fill_access(event);
    if (event.kind == TraceEventKind::place) {
      event.bytes = 1 + number(50) % trace_object_bytes_max;
      event.offset = number(50);
      event.at = TracePlace(chance() ? gpu(ordinal()) : host(ordinal()));
    }
    if (event.kind == TraceEventKind::allocation) {
      event.bytes = 1 + number(50) % trace_object_bytes_max;
      if (chance()) event.chunk_bytes = number(64);
      if (chance()) event.at = TracePlace(chance() ? gpu(ordinal()) : host(ordinal()));
      if (chance()) told.tag = text();
    }
    if (event.kind == TraceEventKind::tag || event.kind == TraceEventKind::mark) told.tag = text();
    return told;
  }

 private:
  void fill_task(TraceEvent& event) {
    event.task = static_cast<std::uint32_t>(number(32)) | 1;
    event.bytes = 1 + (chance() ? number(20) : 0);
    if (chance()) event.duration = Time(static_cast<std::int64_t>(number(40)));
    if (chance()) event.at = TracePlace(gpu(ordinal()));
    if (chance()) event.object = number(64);
    task_ = event;
  }
  void fill_hint(TraceEvent& event) {
    Hint hint;
    hint.passes = static_cast<double>(number(20)) / 8;
    hint.read_mostly = chance();
    if (chance()) hint.next_use = Time(static_cast<std::int64_t>(number(62)));
    if (chance()) hint.until = Time(1 + static_cast<std::int64_t>(number(62)));
    const TraceEvent given = event;
    event = hint_event(hint);
    event.time = given.time;
    event.object = given.object;
    event.bytes = 1 + number(50) % trace_object_bytes_max;
    event.offset = number(50);
    if (chance()) event.task = static_cast<std::uint32_t>(number(32)) | 1;
    event.at_end = event.task != 0 && chance();
    if (event.task == 0 || chance()) event.at = TracePlace(gpu(ordinal()));
  }
  ToldEvent predecessor() {
    ToldEvent told;
    told.event.kind = TraceEventKind::after;
    told.event.time = task_.time;
    told.event.task = task_.task;
    told.event.object = 1 + number(32) % UINT32_MAX;
    if (told.event.object == task_.task) ++told.event.object;
    time_ = static_cast<std::uint64_t>(task_.time.count());
    return told;
  }
  void fill_access(TraceEvent& event) {
    event.bytes = 1 + number(50) % trace_object_bytes_max;
    event.offset = number(50);
    event.use = static_cast<UseKind>(random_() % 3);
    if (chance()) event.duration = Time(static_cast<std::int64_t>(number(62)));
    if (chance()) event.task = static_cast<std::uint32_t>(number(32));
    if (chance()) event.passes = static_cast<float>(number(60) + 1) / 7;
    if (chance()) event.at = TracePlace(gpu(ordinal()));
  }
  bool chance() { return random_() % 2 == 0; }
  int ordinal() { return static_cast<int>(number(14) % (TracePlace::ordinal_max + 1)); }
  /// A number of at most `bits_max` bits; each number of bits is equally likely.
  std::uint64_t number(unsigned bits_max) {
    const auto bits = static_cast<unsigned>(random_() % (bits_max + 1));
    return bits == 0 ? 0 : random_() >> (64 - bits);
  }
  std::string text() {
    const char* const texts[] = {"kv", "weights", "phase \"2\"", "\\", "\xC3\xA4"};
    const std::uint64_t choice = random_() % 7;
    return choice < 5 ? texts[choice] : std::string(1 + choice * 40 - 40 * 5, 'x');
  }

  std::mt19937_64 random_;
  std::uint64_t time_ = 0;
  TraceEvent task_;  // The last event, or that of the last predecessor; else its number is 0.
};

}  // namespace

std::vector<ToldEvent> random_events(std::uint64_t seed, std::size_t count) {
  RandomEvents random(seed);
  std::vector<ToldEvent> events;
  for (std::size_t event = 0; event < count; ++event) events.push_back(random.next());
  return events;
}

ToldEvent access(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes) {
  ToldEvent told;
  told.event.time = Time(time_ns);
  told.event.object = object;
  told.event.bytes = bytes;
  return told;
}

ToldEvent allocation(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes,
                     std::string tag) {
  ToldEvent told = access(time_ns, object, bytes);
  told.event.kind = TraceEventKind::allocation;
  told.tag = std::move(tag);
  return told;
}

ToldEvent free_of(std::int64_t time_ns, std::uint64_t object) {
  ToldEvent told = access(time_ns, object, 0);
  told.event.kind = TraceEventKind::free;
  return told;
}

ToldEvent hint_of_object(std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes,
                         const Hint& hint) {
  ToldEvent told;
  told.event = hint_event(hint);
  told.event.time = Time(time_ns);
  told.event.object = object;
  told.event.bytes = bytes;
  told.event.at = TracePlace(hint.device);
  return told;
}

ToldEvent task_of(std::int64_t time_ns, std::uint32_t task, std::int64_t compute_ns,
                  std::uint64_t repeat) {
  ToldEvent told = access(time_ns, 0, repeat);
  told.event.kind = TraceEventKind::task;
  told.event.task = task;
  told.event.duration = Time(compute_ns);
  return told;
}

ToldEvent after_of(std::int64_t time_ns, std::uint32_t task, std::uint32_t predecessor) {
  ToldEvent told = access(time_ns, predecessor, 0);
  told.event.kind = TraceEventKind::after;
  told.event.task = task;
  return told;
}

}  // namespace vma
