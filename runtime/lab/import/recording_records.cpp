#include "lab/import/recording_records.hpp"

#include <fmt/format.h>

#include <filesystem>

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

}  // namespace vma
