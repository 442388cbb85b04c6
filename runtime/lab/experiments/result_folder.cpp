#include "lab/experiments/result_folder.hpp"

#include "base/whole_file.hpp"

#include <vma/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr const char* call = "vmart-lab run";
constexpr const char* unfinished_name = "unfinished";
constexpr const char* experiment_name = "experiment.json";
const WholeFile::Terms terms{.call = call, .kind = ErrorKind::driver_failure, .mode = 0644};
constexpr std::array folders{"cells", "bounds", "traces", unfinished_name};

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, const std::string& reason) {
  throw Error(kind, call, fmt::format("{}: {}", path, reason));
}

void make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) refuse(ErrorKind::driver_failure, path, failed.message());
}

std::string name_in(const std::string& path, std::string_view folder, const std::string& id,
                    std::string_view ending) {
  return fmt::format("{}/{}/{}{}", path, folder, id, ending);
}

}  // namespace

ResultFolder::ResultFolder(std::string path, const Experiment& experiment)
    : path_(std::move(path)) {
  make_folder(path_);
  const bool known = is_known(experiment);
  lock();
  try {
    for (const char* const folder : folders) make_folder(fmt::format("{}/{}", path_, folder));
    make_unfinished();
    if (!known && !write_first(experiment)) is_known(experiment);
  } catch (...) {
    leave();
    throw;
  }
}

ResultFolder::~ResultFolder() {
  leave();
}

void ResultFolder::leave() noexcept {
  std::error_code ignored;
  fs::remove_all(unfinished_, ignored);
  // Other processes may use the folder or be about to: only the last one removes it.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0)
    fs::remove(fmt::format("{}/{}", path_, unfinished_name), ignored);
  close(descriptor_);
}

bool ResultFolder::is_known(const Experiment& experiment) const {
  const std::string file = fmt::format("{}/{}", path_, experiment_name);
  if (const std::optional<std::string> known = read(file)) {
    if (*known == experiment.text) return true;
    refuse(ErrorKind::invalid_argument, file,
           fmt::format("is of an experiment other than {}; choose another folder with --out",
                       experiment.file));
  }
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, failed)) {
    const std::string name = entry.path().filename().string();
    bool ours = name == experiment_name;  // Another process has just started.
    for (const char* const folder : folders) ours = ours || name == folder;
    if (!ours)
      refuse(ErrorKind::invalid_argument, path_,
             fmt::format("contains {} but no {}; choose another folder with --out", name,
                         experiment_name));
  }
  if (failed) refuse(ErrorKind::invalid_argument, path_, failed.message());
  return false;
}

/// Removes leftovers if no other process uses the folder, then takes a shared lock.
void ResultFolder::lock() {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(ErrorKind::driver_failure, path_, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    flock(descriptor_, LOCK_SH);  // Without support for locks, nothing is ever removed.
    return;
  }
  std::error_code ignored;
  fs::remove_all(fmt::format("{}/{}", path_, unfinished_name), ignored);
  flock(descriptor_, LOCK_SH);
}

void ResultFolder::make_unfinished() {
  unfinished_ = fmt::format("{}/{}/XXXXXX", path_, unfinished_name);
  if (mkdtemp(unfinished_.data()) == nullptr)
    refuse(ErrorKind::driver_failure, unfinished_, std::strerror(errno));
}

bool ResultFolder::write_first(const Experiment& experiment) const {
  WholeFile file(unfinished_path(experiment_name), terms);
  file.write(experiment.text);
  return file.become_first(fmt::format("{}/{}", path_, experiment_name));
}

std::string ResultFolder::cell_path(const std::string& id) const {
  return name_in(path_, "cells", id, ".json");
}

std::string ResultFolder::bound_path(const std::string& id) const {
  return name_in(path_, "bounds", id, ".json");
}

std::string ResultFolder::trace_path(const std::string& name) const {
  return name_in(path_, "traces", name, ".vtrace");
}

std::string ResultFolder::trace_note_path(const std::string& name) const {
  return name_in(path_, "traces", name, ".json");
}

std::string ResultFolder::unfinished_path(const std::string& name) const {
  return fmt::format("{}/{}", unfinished_, name);
}

void ResultFolder::write(const std::string& path, std::string_view text) const {
  WholeFile file(unfinished_path(fs::path(path).filename().string()), terms);
  file.write(text);
  file.become(path);
}

void ResultFolder::finish(const std::string& unfinished, const std::string& path) const {
  std::error_code failed;
  fs::rename(unfinished, path, failed);
  if (failed) refuse(ErrorKind::driver_failure, path, failed.message());
}

std::optional<std::string> ResultFolder::read(const std::string& path) {
  std::error_code failed;
  if (!fs::exists(path, failed) && !failed) return std::nullopt;
  std::optional<std::string> text = read_file(path);
  if (!text) refuse(ErrorKind::invalid_argument, path, "cannot be read");
  return text;
}

}  // namespace vma
