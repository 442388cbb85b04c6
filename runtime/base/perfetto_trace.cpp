#include "base/perfetto_trace.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

namespace vma {
namespace {

constexpr int gpu_process = 1, route_process = 2;
constexpr std::size_t tracks_per_route_max =
    16;  // Of one route; then moves overlap in the last one.
constexpr std::string_view closing = "\n]\n";

double microseconds(TimePoint time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// As a JSON string. Bytes above 127 become '?': the file is ASCII whatever programs wrote.
std::string ascii_quoted(std::string_view text) {
  std::string written = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      written += '\\';
      written += character;
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(written), "\\u{:04x}", byte);
    } else {
      written += byte < 0x80 ? character : '?';
    }
  }
  return written + "\"";
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
    throw Error(ErrorKind::invalid_argument, "VMART_TRACE",
                fmt::format("{}: {}", name, std::strerror(errno)));
  }
  const auto head = [](int process, const char* what) {
    return fmt::format(R"(,
{{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})",
                       process, ascii_quoted(what));
  };
  buffer_ = head(gpu_process, "GPUs and host nodes") + head(route_process, "routes");
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
  buffer_ += fmt::format(
      ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
      process, track, ascii_quoted(name));
}

int PerfettoTrace::gpu_track(Location at) {
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
    buffer_ += fmt::format(
        R"(,
{{"ph":"X","cat":"move","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
        R"("args":{{"address":"{:#x}","bytes":{},"decision":{}}}}})",
        move.moved ? "move" : "move failed", route_process, track, begin,
        microseconds(move.end - move.begin), move.address, move.bytes, move.decision);
    if (move.decision == 0) return;
    buffer_ += fmt::format(
        R"(,
{{"ph":"f","bp":"e","cat":"decision","name":"decision","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
        move.decision, route_process, track, begin);
  });
}

void PerfettoTrace::add(const TracedStall& stall) noexcept {
  record([&]() VMART_NO_THREAD_ANALYSIS {
    const int track = gpu_track(stall.gpu);
    buffer_ += fmt::format(
        R"(,
{{"ph":"X","cat":"stall","name":"stall","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
        R"("args":{{"address":"{:#x}"}}}})",
        gpu_process, track, microseconds(stall.begin), microseconds(stall.end - stall.begin),
        stall.address);
  });
}

void PerfettoTrace::add(const TracedDecision& decision) noexcept {
  record([&]() VMART_NO_THREAD_ANALYSIS {
    const int track = gpu_track(decision.from);
    const double at = microseconds(decision.at);
    // A slice instead of an instant: an arrow needs one to start at.
    buffer_ += fmt::format(
        R"(,
{{"ph":"X","cat":"decision","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":1,)"
        R"("args":{{"number":{},"address":"{:#x}","to":"{}","policy":{},"reason":{}}}}})",
        ascii_quoted(decision.verdict), gpu_process, track, at, decision.number, decision.address,
        to_string(decision.to), ascii_quoted(decision.policy), ascii_quoted(decision.reason));
    buffer_ += fmt::format(
        R"(,
{{"ph":"s","cat":"decision","name":"decision","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
        decision.number, gpu_process, track, at);
  });
}

bool PerfettoTrace::write_out(const std::string& text) noexcept {
  if (write_all(descriptor_, text, end_)) {
    end_ += static_cast<off_t>(text.size() - closing.size());
    return true;
  }
  const int code = errno;
  // The end of an earlier flush fits again: its blocks already belong to the file.
  if (any_written_ && write_all(descriptor_, closing, end_)) {
    static_cast<void>(!ftruncate(descriptor_, end_ + static_cast<off_t>(closing.size())));
  }
  if (!failure_logged_) {
    failure_logged_ = true;
    log(LogLevel::warn, "VMART_TRACE: entries are lost: {}", std::strerror(code));
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
    if (!any_written_) text[0] = '[';  // Each entry begins with a comma.
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
  gpu_tracks_.clear();  // Track names may be among the lost entries: write them again.
  route_tracks_.clear();
}

std::uint64_t PerfettoTrace::lost() const noexcept {
  MutexLock lock(mutex_);
  return lost_;
}

}  // namespace vma
