#include "memory/importer_list.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {

bool ImportingProcess::can_map(Place at) const noexcept {
  return !gpus || at.kind == Place::Kind::host || std::ranges::find(*gpus, at) != gpus->end();
}

std::uint64_t ImporterList::add(const ImportingProcess& importer) {
  const MutexLock lock(mutex_);
  entries_.push_back({last_id_ + 1, importer});
  count_ = entries_.size();
  return ++last_id_;
}

void ImporterList::remove(std::uint64_t id) noexcept {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; });
  count_ = entries_.size();
}

std::vector<ImportingProcess> ImporterList::all() const {
  const MutexLock lock(mutex_);
  std::vector<ImportingProcess> importers;
  importers.reserve(entries_.size());
  for (const Entry& entry : entries_) importers.push_back(entry.importer);
  return importers;
}

std::string ImporterList::why_pinned() const {
  const MutexLock lock(mutex_);
  if (entries_.empty()) return "was imported by a process that has just freed it";
  const std::string others =
      entries_.size() > 1 ? fmt::format(" and {} more", entries_.size() - 1) : "";
  return fmt::format(
      "is imported by process {}{}; it moves in migrations that the program asks for, each alone, "
      "or once they have freed it",
      entries_.front().importer.process, others);
}

std::string ImporterList::why_not_at(Place at) const {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [at](const Entry& entry) { return !entry.importer.can_map(at); });
  if (found == entries_.end()) return {};
  return fmt::format(
      "is imported by process {}, which does not use {}; move it to a host node or to a GPU that "
      "this process uses, or start the process with that GPU in CUDA_VISIBLE_DEVICES",
      found->importer.process, to_string(at));
}

}  // namespace vma
