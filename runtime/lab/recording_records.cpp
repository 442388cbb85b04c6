#include "lab/recording_records.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace vma {
namespace {

/// The next file of the recording, if it is beside this one.
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

}  // namespace

void read_records(const std::string& first, RecordListener& listener) {
  for (std::string path = first; !path.empty();) {
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
    path = next_file(path, reader.header());
  }
}

}  // namespace vma
