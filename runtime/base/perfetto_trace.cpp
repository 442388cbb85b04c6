#include "base/perfetto_trace.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vma {
namespace {

namespace json = boost::json;

constexpr int gpu_process = 1, route_process = 2;
// Further concurrent moves of a route overlap in its last track.
constexpr std::size_t tracks_per_route_max = 16;
constexpr std::string_view closing = "\n]\n";

double microseconds(TimePoint time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Replaces bytes above 127 by '?', so that the file is ASCII.
json::string ascii(std::string_view text) {
  json::string written(text);
  std::ranges::replace_if(
      written, [](char byte) { return static_cast<unsigned char>(byte) > 0x7F; }, '?');
  return written;
}

/// An entry about a track of a process, on its own line after the previous entry.
std::string entry(const char* phase, json::string_view name, int process, int track,
                  json::object members) {
  members["ph"] = phase;
  members["name"] = name;
  members["pid"] = process;
  members["tid"] = track;
  return ",\n" + json::serialize(members);
}

std::string name_entry(const char* what, int process, int track, std::string_view name) {
  return entry("M", what, process, track, {{"args", {{"name", ascii(name)}}}});
}

/// One end of the arrow from a decision to its move.
json::object arrow_end(std::uint64_t decision, double at) {
  return {{"cat", "decision"}, {"id", decision}, {"ts", at}};
}

json::string address_text(std::uint64_t address) {
  return json::string(fmt::format("{:#x}", address));
}

std::string file_name(const std::string& pattern) {
  const std::size_t mark = pattern.find("%p");
  if (mark == std::string::npos) return pattern;
  return pattern.substr(0, mark) + std::to_string(getpid()) + pattern.substr(mark + 2);
}

bool write_all(int descriptor, std::string_view text, off_t offset) {
  while (!text.empty()) {
    const ssize_t written = pwrite(descriptor, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

}  // namespace

PerfettoTrace::PerfettoTrace(const std::string& file, std::size_t entries_max)
    : owner_(getpid()), entries_max_(entries_max) {
  const std::string name = file_name(file);
  descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw Error(ErrorKind::invalid_argument, "VMART_TIMELINE",
                fmt::format("{}: {}", name, std::strerror(errno)));
  }
  buffer_ = name_entry("process_name", gpu_process, 0, "GPUs and host nodes") +
            name_entry("process_name", route_process, 0, "routes");
}

PerfettoTrace::~PerfettoTrace() {
  flush();
  close(descriptor_);
}

template <typename Body>
void PerfettoTrace::record(Body&& body) noexcept {
  MutexLock lock(mutex_);
  if (entries_ >= entries_max_) {
    ++lost_;
    return;
  }
  const std::size_t before = buffer_.size();
  try {
    body();
    ++entries_;
  } catch (...) {  // No memory.
    buffer_.resize(before);
    ++lost_;
  }
}

void PerfettoTrace::name_track(int process, int track, const std::string& name) {
  buffer_ += name_entry("thread_name", process, track, name);
}

int PerfettoTrace::gpu_track(Place at) {
  const auto found = gpu_tracks_.find(at);
  if (found != gpu_tracks_.end()) return found->second;
  const int track = next_track_++;
  name_track(gpu_process, track, to_string(at));
  return gpu_tracks_[at] = track;
}

int PerfettoTrace::move_track(const TracedMove& move) {
  std::vector<RouteTrack>& tracks = route_tracks_[{move.from, move.to}];
  for (RouteTrack& track : tracks) {
    if (track.end > move.begin) continue;
    track.end = move.end;
    return track.track;
  }
  if (tracks.size() < tracks_per_route_max) {
    tracks.push_back({next_track_++, move.end});
    name_track(route_process, tracks.back().track,
               fmt::format("{} to {}", to_string(move.from), to_string(move.to)));
  }
  return tracks.back().track;
}

void PerfettoTrace::add(const TracedMove& move) noexcept {
  record([&]() VMART_NO_THREAD_ANALYSIS {
    const int track = move_track(move);
    const double begin = microseconds(move.begin);
    buffer_ += entry("X", move.moved ? "move" : "move failed", route_process, track,
                     {{"cat", "move"},
                      {"ts", begin},
                      {"dur", microseconds(move.end - move.begin)},
                      {"args",
                       {{"address", address_text(move.address)},
                        {"bytes", move.bytes},
                        {"decision", move.decision}}}});
    if (move.decision == 0) return;
    json::object end = arrow_end(move.decision, begin);
    end["bp"] = "e";  // Binds to the enclosing slice.
    buffer_ += entry("f", "decision", route_process, track, std::move(end));
  });
}

void PerfettoTrace::add(const TracedStall& stall) noexcept {
  record([&]() VMART_NO_THREAD_ANALYSIS {
    const int track = gpu_track(stall.gpu);
    buffer_ +=
        entry("X", "stall", gpu_process, track,
              {{"cat", "stall"},
               {"ts", microseconds(stall.begin)},
               {"dur", microseconds(stall.end - stall.begin)},
               {"args", {{"address", address_text(stall.address)}, {"stop", ascii(stall.stop)}}}});
  });
}

void PerfettoTrace::add(const TracedDecision& decision) noexcept {
  record([&]() VMART_NO_THREAD_ANALYSIS {
    const int track = gpu_track(decision.from);
    const double at = microseconds(decision.at);
    // A slice rather than an instant, because an arrow must start at a slice.
    buffer_ += entry("X", ascii(decision.verdict), gpu_process, track,
                     {{"cat", "decision"},
                      {"ts", at},
                      {"dur", 1},
                      {"args",
                       {{"number", decision.number},
                        {"address", address_text(decision.address)},
                        {"to", to_string(decision.to)},
                        {"policy", ascii(decision.policy)},
                        {"reason", ascii(decision.reason)}}}});
    buffer_ += entry("s", "decision", gpu_process, track, arrow_end(decision.number, at));
  });
}

bool PerfettoTrace::write_out(const std::string& text) noexcept {
  if (write_all(descriptor_, text, end_)) {
    end_ += static_cast<off_t>(text.size() - closing.size());
    return true;
  }
  const int code = errno;
  // Restores the end of the previous flush. It fits, because its blocks already belong to the file.
  if (any_written_ && write_all(descriptor_, closing, end_)) {
    static_cast<void>(!ftruncate(descriptor_, end_ + static_cast<off_t>(closing.size())));
  }
  if (!failure_logged_) {
    failure_logged_ = true;
    log(LogLevel::warn, "VMART_TIMELINE: entries are lost: {}", std::strerror(code));
  }
  return false;
}

void PerfettoTrace::flush() noexcept {
  if (getpid() != owner_) return;
  MutexLock file_lock(file_mutex_);
  std::string text;
  std::size_t entries = 0;
  {
    MutexLock lock(mutex_);
    text.swap(buffer_);
    entries = std::exchange(entries_, 0);
  }
  if (text.empty()) return;
  bool written = false;
  try {
    // Each entry begins with a comma; the first one needs a bracket instead.
    if (!any_written_) text[0] = '[';
    text += closing;
    written = write_out(text);
  } catch (...) {  // No memory.
  }
  if (written) {
    any_written_ = true;
    return;
  }
  MutexLock lock(mutex_);
  lost_ += entries;
  gpu_tracks_.clear();  // Track names may be among the lost entries, so they are written again.
  route_tracks_.clear();
}

std::uint64_t PerfettoTrace::lost() const noexcept {
  MutexLock lock(mutex_);
  return lost_;
}

PerfettoWriter::PerfettoWriter(Executor& executor, const std::string& file) : trace_(file) {
  thread_ = executor.spawn("vmart trace", [this] { work(); });
}

PerfettoWriter::~PerfettoWriter() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  thread_->join();
}

void PerfettoWriter::flush_soon() noexcept {
  const MutexLock lock(mutex_);
  asked_ = true;
  changed_.notify_all();
}

/// Does not hold the lock during disk writes. The trace itself writes the last entries.
void PerfettoWriter::work() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return asked_ || closed_; });
    if (closed_) return;
    asked_ = false;
    lock.unlock();
    ProcessExit::hold_back();  // During process exit, another thread writes the last entries.
    trace_.flush();
    lock.lock();
  }
}

std::unique_ptr<PerfettoWriter> open_trace(Executor& executor, const std::string& file) {
  if (file.empty()) return nullptr;
  try {
    return std::make_unique<PerfettoWriter>(executor, file);
  } catch (const Error& error) {
    log(LogLevel::warn, "VMART_TIMELINE: cannot write the trace: {}", error.what());
    return nullptr;
  }
}

}  // namespace vma
